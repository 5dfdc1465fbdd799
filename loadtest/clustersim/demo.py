"""The product on a simulated cluster, end to end: every example applied, every name asked for, every delay measured."""

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from clustersim.apiclient import ApiClient
from clustersim.demo_checks import Checks, Exposed, NotYet, exposed
from clustersim.demo_report import Row, commands, delays, table
from clustersim.demo_stage import POLL_SECONDS, Stage, apply_examples
from clustersim.objects import SERVICE
from clustersim.processes import ProcessError, Processes

LIMIT_SECONDS = 60
ANSWER_SECONDS = 30
ROUNDS = 20
INTERRUPTED = 130


class DemoError(Exception):
    """The product did not do what it should; the message says what."""


def main(keep: bool) -> int:
    """Run the demo and return 0 if every name leads where it should; with *keep*, stay up until interrupted."""
    return asyncio.run(_until_signal(keep))


async def _until_signal(keep: bool) -> int:
    demo = asyncio.create_task(_demo(keep))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, demo.cancel)
    try:
        return await demo
    except asyncio.CancelledError:
        print("stopped before the end")
        return INTERRUPTED


async def _demo(keep: bool) -> int:
    """Run on a stage of its own; whatever happens, its processes end and its files go."""
    with TemporaryDirectory(prefix="tsoperator-demo-") as folder:
        async with Processes(Path(folder)) as processes:
            stage = Stage.on_free_ports(Path(folder))
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    rows = await Demo(stage, processes).run()
            except TimeoutError:
                _explain(f"not done after {LIMIT_SECONDS} s", processes)
                return 1
            except (DemoError, ProcessError, aiohttp.ClientError, OSError) as error:
                _explain(str(error), processes)
                return 1
            if keep:
                await _stay(stage, rows)
    return 0


async def _stay(stage: Stage, rows: Sequence[Row]) -> None:
    """Say what to try, and wait for the signal that ends the demo."""
    print("", *commands(stage.kubeconfig, stage.dns_port, rows), "", "Ctrl-C ends it.", sep="\n", flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # the end that was asked for
        print("stopping")


def _explain(reason: str, processes: Processes) -> None:
    print(f"\nFAILED: {reason}")
    for name, lines in processes.tails().items():
        print(f"\nthe end of what the {name} logged:", *lines, sep="\n  ")


class Demo:
    """One run, from nothing to the measured answers."""

    def __init__(self, stage: Stage, processes: Processes) -> None:
        self._stage = stage
        self._processes = processes
        self._began = time.monotonic()

    async def run(self) -> list[Row]:
        """Start everything, check every name and measure the changes; raises DemoError."""
        stage, processes = self._stage, self._processes
        self._say("starting a simulated cluster and tailnet")
        await stage.start_cluster(processes)
        self._say(f"API server {stage.api_url}, control server {stage.control_url}")
        await stage.start_nameserver(processes)
        await stage.start_operator(processes)
        self._say(f"the operator is ready; the nameserver listens on 127.0.0.1 port {stage.dns_port}")
        async with ApiClient(stage.api_url) as api:
            applied = time.monotonic()
            objects = await apply_examples(api)
            self._say(f"applied {len(objects)} objects from docs/examples")
            checks, targets = Checks(api, stage.dns_port), exposed(objects)
            rows = await self._check(checks, targets, applied)
            print("", *table(rows), "", sep="\n", flush=True)
            await self._measure(checks, targets)
        return rows

    async def _check(self, checks: Checks, targets: Sequence[Exposed], applied: float) -> list[Row]:
        """Wait until every name leads where the cluster says; raises DemoError if one doesn't in time."""
        missing = dict.fromkeys(targets, "not looked at")
        rows = {}
        while missing:
            self._processes.check()
            if time.monotonic() - applied > ANSWER_SECONDS:
                raise DemoError("".join(f"\n  {target}: {reason}" for target, reason in missing.items()))
            for target in list(missing):
                try:
                    name, addresses = await checks.leads(target)
                except NotYet as reason:
                    missing[target] = str(reason)
                    continue
                rows[target] = Row(str(target), name, addresses, time.monotonic() - applied)
                del missing[target]
                self._say(f"{target}: {name} leads to {', '.join(addresses)}")
            await asyncio.sleep(POLL_SECONDS)
        return [rows[target] for target in targets]

    async def _measure(self, checks: Checks, targets: Sequence[Exposed]) -> None:
        """Measure on the first egress by name; raises DemoError if a change is not answered."""
        for target in targets:
            if target.resource == SERVICE and await checks.qname(target):
                self._say(f"moving the proxy of {target} to another address, {ROUNDS} times")
                try:
                    print("", delays(await checks.delays(target, ROUNDS)), sep="\n", flush=True)
                except NotYet as reason:
                    raise DemoError(f"{target}: {reason}") from reason
                return

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.2f} s  {text}", flush=True)
