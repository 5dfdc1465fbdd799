"""Carries out one run: a fresh cluster, one operator, all Services made, left alone and removed."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from clustersim.traffic import MUTATING
from tsoperator.kube.errors import KubeError

from tests.e2e.operatorbench import controlserver
from tests.e2e.operatorbench.cluster import USERS, Cluster, following
from tests.e2e.operatorbench.measure import Sample, Step, by_write
from tests.e2e.operatorbench.operators import USER, Operator
from tests.e2e.operatorbench.process import Spending
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.daemons import Daemon, tail
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.progress import Progress
from tests.support.audit import AuditLog

_START = 60.0  # s that an operator may take to serve its first Service
_LIMIT = 600.0  # s that a step may take
_QUIET = 2.0  # s without a write after which an operator has settled
_LOOK = 0.25  # s between two looks into the audit log
_STOP = 10.0  # s that it may take to stop by itself

CONTROLLERS = {"controllers": "*,-statefulset-controller,-node-lifecycle-controller"}
"""Flags of the controller manager: it makes no Pods. Its garbage collector keeps its limit of 20 requests a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many Services, and for how many seconds they are left alone."""

    services: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Watched:
    """An operator at work: what it does to the cluster, what it spends, and what it asks of the API server."""

    cluster: Cluster
    spending: Spending
    log: AuditLog
    load: Load

    @property
    def names(self) -> list[str]:
        """The names of the Services."""
        return [f"db-{number}" for number in range(self.load.services)]

    async def measure(self, number: int, operator: Operator, progress: Progress) -> Sample:
        """Measure all steps."""
        await self._warm()
        progress.say(f"  making {self.load.services} Services")
        made, ready_seconds = await self._make()
        progress.say(f"  made in {made.seconds:.1f} s with {made.cpu_seconds:.2f} s of CPU; leaving them alone")
        idle = await self._leave_alone()
        rss_mb = self.spending.rss_mb
        removed = await self._step(self._remove)
        progress.say(f"  removed in {removed.seconds:.1f} s with {removed.cpu_seconds:.2f} s of CPU")
        return Sample(
            kind=operator.kind,
            run=number,
            services=self.load.services,
            made=made,
            ready_seconds=ready_seconds,
            idle=idle,
            removed=removed,
            rss_mb=rss_mb,
            peak_mb=self.spending.peak_mb,
        )

    async def _warm(self) -> None:
        """See one Service through, so that neither the operator's start nor its first connections are measured."""
        await self.cluster.create(["first"])
        await self.cluster.until(lambda: self.cluster.ready(1), _START, "the first Service is ready")
        await self.cluster.delete(["first"])
        await self.cluster.until(self.cluster.gone, _LIMIT, "the first Service is gone")
        await self._settle()

    async def _make(self) -> tuple[Step, float]:
        ready_seconds = 0.0

        async def make() -> float:
            nonlocal ready_seconds
            started, count = time.monotonic(), self.load.services
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cluster.create(self.names))
                await self.cluster.until(lambda: self.cluster.made(count), _LIMIT, "all StatefulSets are there")
                seconds = time.monotonic() - started
            await self.cluster.until(lambda: self.cluster.ready(count), _LIMIT, "all Services are ready")
            ready_seconds = time.monotonic() - started
            return seconds

        return await self._step(make), ready_seconds

    async def _leave_alone(self) -> Step:
        async def wait() -> float:
            await asyncio.sleep(self.load.idle_seconds)
            return self.load.idle_seconds

        return await self._step(wait, settle=False)

    async def _remove(self) -> float:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cluster.delete(self.names))
            await self.cluster.until(self.cluster.gone, _LIMIT, "all Services and what was made for them are gone")
        return time.monotonic() - started

    async def _step(self, act: Callable[[], Awaitable[float]], settle: bool = True) -> Step:
        """Measure *act*, which returns how many seconds of it count."""
        requests, spent = self.log.requests(), self.spending.cpu_seconds
        started, others = time.monotonic(), self.spending.others_seconds
        seconds = await act()
        others = max(0.0, self.spending.others_seconds - others) / (time.monotonic() - started)
        if settle:
            await self._settle()
        spent = self.spending.cpu_seconds - spent
        asked = self.log.requests() - requests
        writes = Counter[tuple[str, str]]()
        for (_, verb, plural), count in asked.items():
            if verb in MUTATING:
                writes[verb, plural] += count
        return Step(
            seconds=seconds,
            cpu_seconds=spent,
            writes=by_write(writes),
            reads=asked.total() - writes.total(),
            others=others,
        )

    async def _settle(self) -> None:
        """Wait until the operator has written nothing for a while, but its lease."""
        deadline = time.monotonic() + _LIMIT
        last, since = self._written(), time.monotonic()
        while time.monotonic() - since < _QUIET:
            if time.monotonic() > deadline:
                raise BedError(f"the operator still writes after {_LIMIT:g} s")
            await asyncio.sleep(_LOOK)  # the log tells nobody that it grows
            if (now := self._written()) != last:
                last, since = now, time.monotonic()

    def _written(self) -> int:
        return sum(count for (_, plural), count in self.log.writes().items() if plural != "leases")


def run(bed: Bed, operator: Operator, load: Load, number: int, progress: Progress) -> Sample:
    """Run *operator* on a fresh cluster.

    Raises:
        BedError: something didn't start, or the operator didn't do its work: says what, with the end of its log.
    """
    progress.say(f"run {number}: {operator.kind}")
    with _up(bed, progress):
        login_server = controlserver.start(bed)
        operator.install(bed)
        bed.kubectl("create", "namespace", USERS)
        bed.plane.wait_for_namespace(USERS)
        daemon = operator.start(bed, login_server)
        try:
            return asyncio.run(_measure(bed, daemon, operator, load, number, progress))
        except ExceptionGroup as group:
            if group.split((BedError, KubeError))[1]:
                raise
            raise BedError(f"{_words(group)}\n{tail(daemon.log)}\n(the whole log: {daemon.log})") from group
        finally:
            daemon.process.end(_STOP)


async def _measure(bed: Bed, daemon: Daemon, operator: Operator, load: Load, number: int, progress: Progress) -> Sample:
    with closing(AuditLog(bed.plane.audit_log, USER)) as log:
        async with following(bed.kubeconfig, lambda: daemon.process.alive) as cluster:
            return await Watched(cluster, Spending(daemon, bed), log, load).measure(number, operator, progress)


@contextmanager
def _up(bed: Bed, progress: Progress) -> Iterator[None]:
    """Have the bed up."""
    with locked(bed.paths.work, "up"):
        bed.up(progress)
    try:
        yield
    finally:
        with locked(bed.paths.work, "down"):
            bed.down(progress)


def _words(group: ExceptionGroup[Exception]) -> str:
    """Return what the first error of *group* says."""
    first: Exception = group
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return str(first)
