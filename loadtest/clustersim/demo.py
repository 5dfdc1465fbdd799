"""The demo, which shows the operator and the nameserver on a simulated cluster.

The demo applies every example, asks the nameserver for every name, and looks for every device in the tailnet. After
that, it changes the addresses of a name, and measures the time until the nameserver answers with the new ones.
"""

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from clustersim.apiclient import ApiClient
from clustersim.demo_checks import Checks, Exposed, NotYet, Reached, exposed
from clustersim.demo_devices import (
    Hosted,
    Shown,
    control_client,
    devices_of,
    hosted,
    services_of,
    shown,
    tailnet_devices,
)
from clustersim.demo_faults import FAULTS, FaultDemo, FaultError
from clustersim.demo_report import Row, commands, delays, device_table, table
from clustersim.demo_stage import POLL_SECONDS, Stage, apply_examples
from clustersim.objects import SERVICE
from clustersim.processes import ProcessError, Processes
from clustersim.tailnet import PARTNER_CLIENT

LIMIT_SECONDS = 60
FAULT_SECONDS = 240
ANSWER_SECONDS = 30
ROUNDS = 10
INTERRUPTED = 130


class DemoError(Exception):
    """The operator or the nameserver did not do what it should; the message describes the failure."""


def main(keep: bool, fail: str = "") -> int:
    """Run the demo and return 0 if every name leads to the right addresses; with *keep*, stay up until interrupted.

    If *fail* is the name of a fault, show this fault instead. Without *keep*, mend the fault in the end. In that case,
    return 0 if the operator reports the fault and, if it was mended, the end of the fault.
    """
    return asyncio.run(_until_signal(keep, fail))


async def _until_signal(keep: bool, fail: str) -> int:
    demo = asyncio.create_task(_demo(keep, fail))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, demo.cancel)
    try:
        return await demo
    except asyncio.CancelledError:
        print("stopped before the end")
        return INTERRUPTED


async def _demo(keep: bool, fail: str) -> int:
    """Run the demo on a new stage. At the end, stop the processes and remove the files of the stage."""
    with TemporaryDirectory(prefix="tsoperator-demo-") as folder:
        async with Processes(Path(folder)) as processes:
            stage = Stage.on_free_ports(Path(folder))
            try:
                async with asyncio.timeout(FAULT_SECONDS if fail else LIMIT_SECONDS):
                    if fail:
                        lines = await FaultDemo(stage, processes, FAULTS[fail]).run(mend=not keep)
                    else:
                        rows = await Demo(stage, processes).run()
                        lines = commands(stage.kubeconfig, stage.dns_port, stage.page, rows)
            except TimeoutError:
                _explain("not done in time", processes)
                return 1
            except (DemoError, FaultError, ProcessError, aiohttp.ClientError, OSError) as error:
                _explain(str(error), processes)
                return 1
            if keep:
                await _stay(stage, processes, lines)
    return 0


async def _stay(stage: Stage, processes: Processes, lines: Sequence[str]) -> None:
    """Print *lines* with commands that the user can try, and wait for the signal that ends the demo.

    Meanwhile, do the kubelet's work for the operator: write the credentials in the Secret into the operator's files,
    and restart the operator when another Pod replaces its Pod.
    """
    print("", *lines, "", "Ctrl-C ends it.", sep="\n", flush=True)
    try:
        async with ApiClient(stage.api_url) as api, asyncio.TaskGroup() as tasks:
            tasks.create_task(stage.mount_credentials(api))
            tasks.create_task(stage.follow_operator(processes, api))
    except asyncio.CancelledError:  # the user has ended the demo
        print("stopping")


def _explain(reason: str, processes: Processes) -> None:
    print(f"\nFAILED: {reason}")
    for name, lines in processes.tails().items():
        print(f"\nthe end of what the {name} logged:", *lines, sep="\n  ")


def _show(title: str, lines: Sequence[str]) -> None:
    print("", title, "", *lines, sep="\n", flush=True)


Target = Exposed | Shown | Hosted
"""An object that the demo checks."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Checks whether an object works, by asking the nameserver or by reading the devices of the tailnet."""

    checks: Checks
    api: ApiClient
    control: aiohttp.ClientSession
    partner: aiohttp.ClientSession

    async def at(self, target: Target) -> list[Reached]:
        """Return the name and the addresses by which *target* is reached. Raises NotYet if it can't be reached yet."""
        if isinstance(target, Hosted):
            return await services_of(target, self.api, self.control)
        if isinstance(target, Shown):
            devices = await tailnet_devices(self.control) | await tailnet_devices(self.partner)
            return await devices_of(target, self.api, devices)
        return [Reached(*await self.checks.leads(target))]


class Demo:
    """One run of the demo: it starts all programs, checks all names, and measures how soon DNS answers show changes."""

    def __init__(self, stage: Stage, processes: Processes) -> None:
        self._stage = stage
        self._processes = processes
        self._began = time.monotonic()

    async def run(self) -> list[Row]:
        """Start everything, check every name and measure the changes; return the rows of the names that Pods reach.

        Raises DemoError.
        """
        stage, processes = self._stage, self._processes
        self._say("starting a simulated cluster and tailnet")
        await stage.start_cluster(processes)
        self._say(f"API server {stage.api_url}, control server {stage.control_url}")
        await stage.start_nameserver(processes)
        async with (
            ApiClient(stage.api_url) as api,
            control_client(stage.control_url, *stage.credentials) as control,
            control_client(stage.partner_url, *PARTNER_CLIENT) as partner,
        ):
            await stage.start_operator(processes, await stage.install(api))
            self._say(f"the operator is ready; the nameserver listens on 127.0.0.1 port {stage.dns_port}")
            applied = time.monotonic()
            objects = await apply_examples(api)
            self._say(f"applied {len(objects)} objects from docs/examples")
            looks = Looks(Checks(api, stage.dns_port), api, control, partner)
            names = exposed(objects)
            devices: list[Target] = [*shown(objects), *hosted(objects)]
            rows = await self._look(looks, [*names, *devices], applied)
            by_name = [row for target in names for row in rows[target]]
            by_device = [row for target in devices for row in rows[target]]
            _show("What Pods reach, as the nameserver answers:", table(by_name))
            _show(
                "What the tailnet reaches, as the control server lists its devices and Tailscale Services:",
                device_table(by_device),
            )
            await self._measure(looks.checks, names)
        return by_name

    async def _look(self, looks: Looks, targets: Sequence[Target], applied: float) -> dict[Target, list[Row]]:
        """Check the *targets* again and again until all work; return the rows of each target.

        Raises DemoError if this takes more than `ANSWER_SECONDS` from *applied*, a time of the monotonic clock.
        """
        missing = dict.fromkeys(targets, "not looked at")
        rows = {}
        while missing:
            self._processes.check()
            if time.monotonic() - applied > ANSWER_SECONDS:
                raise DemoError("".join(f"\n  {target}: {reason}" for target, reason in missing.items()))
            for target in list(missing):
                try:
                    found = await looks.at(target)
                except NotYet as reason:
                    missing[target] = str(reason)
                    continue
                seconds = time.monotonic() - applied
                rows[target] = [Row(str(target), each.name, each.addresses, seconds, each.offers) for each in found]
                del missing[target]
                for each in found:
                    self._say(f"{target}: {each}")
            await asyncio.sleep(POLL_SECONDS)
        return rows

    async def _measure(self, checks: Checks, targets: Sequence[Exposed]) -> None:
        """Measure how soon the nameserver's answers show changes of the first egress Service that has a name.

        Raises DemoError if the answers never show one of the changes.
        """
        for target in targets:
            if target.resource == SERVICE and await checks.qname(target):
                print()
                self._say(f"moving the proxy of {target} to another address, {ROUNDS} times")
                try:
                    print("", delays(await checks.delays(target, ROUNDS)), sep="\n", flush=True)
                except NotYet as reason:
                    raise DemoError(f"{target}: {reason}") from reason
                return

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.2f} s  {text}", flush=True)
