"""The operator as a process of its own, and measurements of its CPU and memory."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import aiohttp
from dnsbench.process import Stat

from tests.support.cluster import until
from tests.support.operator import NAMESPACE, World

_TICKS = os.sysconf("SC_CLK_TCK")
_START = 60.0  # s until the operator says where its metrics are
_LOOK = 0.25  # s between two looks at the CPU that the operator has used
_QUIET = 3.0  # s without work after which the work counts as ended
_IDLE = 0.05  # cores: a process that uses less CPU does no work
_METRIC = re.compile(r"(\w+)(?:\{.*\})? (\S+)")
_ADDRESS = re.compile(r"probes and metrics on (\S+)")
_MEMORY = re.compile(r"^(Vm\w+):\s+(\d+) kB$", re.MULTILINE)


class Moment(NamedTuple):
    """The beginning of a measurement: its time by `time.monotonic`, and the CPU seconds that the process had used."""

    when: float
    cpu_seconds: float


class Cost(NamedTuple):
    """The CPU, memory and time that the operator needed for a step."""

    cpu_seconds: float
    """The CPU time of all threads of the operator."""
    held_seconds: float
    """The CPU time of the callback that blocked the event loop for the longest time."""
    rss_mb: float
    """The resident memory at the end of the step, in units of 10⁶ bytes."""
    peak_mb: float
    """The highest resident memory since the operator started, in units of 10⁶ bytes."""
    seconds: float
    """The seconds from the beginning of the step until the operator was quiet."""
    holder: str
    """The name of the task that blocked the event loop for the longest time."""

    @property
    def figures(self) -> tuple[float, ...]:
        """All fields but *holder*, in order."""
        return self[:-1]


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A running operator. *holds* is the file that `loopwatch` writes; *start* is the moment of the process's start."""

    child: asyncio.subprocess.Process
    log: Path
    holds: Path
    url: str
    start: Moment

    def now(self) -> Moment:
        """Return the present moment, from which `cost` can measure."""
        stat = Stat.parse(Path(f"/proc/{self.child.pid}/stat").read_text())
        return Moment(time.monotonic(), stat.cpu_ticks / _TICKS)

    def cost(self, since: Moment) -> Cost:
        """Return the operator's cost since *since*. Call this right after `quiet` or `done`.

        The `seconds` of the cost leave out the final wait of these two.
        """
        now = self.now()
        lines = [line.split(" ", 2) for line in self.holds.read_text().splitlines()]
        holds = [(float(held), what) for when, held, what in lines if float(when) > since.when]
        held, holder = max(holds, default=(0.0, ""))
        memory = dict(_MEMORY.findall(Path(f"/proc/{self.child.pid}/status").read_text()))
        rss, peak = (int(memory[name]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
        return Cost(now.cpu_seconds - since.cpu_seconds, held, rss, peak, now.when - since.when - _QUIET, holder)

    async def quiet(self) -> None:
        """Wait until the process has used nearly no CPU for `_QUIET` seconds."""
        last = self.now()
        while (now := self.now()).when - last.when < _QUIET:
            assert self.child.returncode is None, self.log.read_text()[-2000:]
            if now.cpu_seconds - last.cpu_seconds > _IDLE * _QUIET:
                last = now
            await asyncio.sleep(_LOOK)

    async def done(self, reconciles: int, seconds: float) -> None:
        """Wait until the operator has made at least *reconciles* reconciles, and has nothing left to do.

        Raises TimeoutError after *seconds*.
        """
        async with asyncio.timeout(seconds):
            while True:
                await self.quiet()
                now = await self.metrics()
                busy = now["tsoperator_queue_depth"] + now["tsoperator_active_workers"]
                if now["tsoperator_reconciles_total"] >= reconciles and not busy:
                    return

    async def metrics(self) -> Mapping[str, float]:
        """Return the operator's metrics by name, added up over their labels."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        found: dict[str, float] = {}
        for match in filter(None, map(_METRIC.fullmatch, lines)):
            found[match[1]] = found.get(match[1], 0) + float(match[2])
        return found


@asynccontextmanager
async def operator_process(world: World, folder: Path, **environment: str) -> AsyncIterator[OperatorProcess]:
    """Run the operator on the cluster of *world* with additional *environment*; create *folder* for its files."""
    log, holds = folder / "log", folder / "holds"
    settings = _settings(world, folder) | {"LOOP_HOLDS": str(holds)} | environment
    start = Moment(time.monotonic(), 0.0)
    with log.open("wb") as file:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.loopwatch", env=settings, stderr=file
        )
    try:
        await until(lambda: child.returncode is not None or _ADDRESS.search(log.read_text()), _START)
        address = _ADDRESS.search(log.read_text())
        assert address, log.read_text()
        yield OperatorProcess(child, log, holds, f"http://{address[1]}", start)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


def _settings(world: World, folder: Path) -> dict[str, str]:
    """Return the environment of an operator on the cluster of *world*. The files that it names are in *folder*."""
    files = {
        "KUBECONFIG": world.kubeconfig,
        "CLIENT_ID_FILE": world.control.client_id,
        "CLIENT_SECRET_FILE": world.control.client_secret,
    }
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return {
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPERATOR_NAMESPACE": NAMESPACE,
        "OPERATOR_LOGIN_SERVER": world.control_url,
        "OPERATOR_LEADER_ELECTION": "false",
        "OPERATOR_HEALTH_ADDR": "127.0.0.1:0",
        "OPERATOR_STATUS_ADDR": "",
        **{name: str(folder / name) for name in files},
    }
