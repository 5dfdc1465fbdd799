"""The parts that all scenarios share: a new cluster with an operator, and the measurement of that operator."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clustersim.traffic import MUTATING
from dnsbench.errors import BenchError
from tsoperator.kube.errors import KubeError
from tsoperator.kube.watch import Selection

from operatorbench.audit import AuditLog
from operatorbench.cluster import FOLLOWED, Cluster, following
from operatorbench.ground import USER, Ground, Program, Servers
from operatorbench.manifests import USERS
from operatorbench.measure import Step, by_write
from operatorbench.operators import Operator
from operatorbench.process import Spending

LIMIT = 600.0  # s until a step must have ended

_START = 60.0  # s until an operator must have served its first Service
_QUIET = 2.0  # s without a write after which an operator has settled
_LOOK = 0.25  # s between two readings of the audit log
_STOP = 10.0  # s until an operator is killed if it hasn't stopped by itself
_TAIL = 25  # lines of a log that a failure shows

Figures = TypeVar("Figures")


@dataclass(frozen=True, slots=True)
class Load:
    """The number of Services that a scenario makes, and the seconds for which it leaves them unchanged after that."""

    services: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A running operator that is measured, with its cluster, the CPU and memory that it uses, and its requests."""

    cluster: Cluster
    spending: Spending
    log: AuditLog

    async def warm(self) -> None:
        """Create and delete one Service, so that the operator's start and its first connections are not measured."""
        await self.cluster.create(["first"])
        await self.cluster.until(
            lambda: self.cluster.reported(1), _START, "the first Service says that its proxy is made"
        )
        await self.cluster.delete(["first"])
        await self.cluster.until(self.cluster.gone, LIMIT, "the first Service is gone")
        await self.settle()

    async def step(self, act: Callable[[], Awaitable[float]], settle: bool = True) -> Step:
        """Measure the operator during *act* and, if *settle* is true, until it has settled after *act*.

        *act* returns the number of seconds that the step took.
        """
        requests, spent = self.log.requests(), self.spending.cpu_seconds
        started, others = time.monotonic(), self.spending.others_seconds
        seconds = await act()
        others = max(0.0, self.spending.others_seconds - others) / (time.monotonic() - started)
        if settle:
            await self.settle()
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

    async def leave_alone(self, seconds: float) -> Step:
        """Measure the operator for *seconds* in which nobody else changes anything in the cluster."""

        async def wait() -> float:
            await asyncio.sleep(seconds)
            return seconds

        return await self.step(wait, settle=False)

    async def settle(self) -> None:
        """Wait until the operator has written nothing but its Lease for a while."""
        deadline = time.monotonic() + LIMIT
        last, since = self._written(), time.monotonic()
        while time.monotonic() - since < _QUIET:
            if time.monotonic() > deadline:
                raise BenchError(f"the operator still writes after {LIMIT:g} s")
            await asyncio.sleep(_LOOK)  # nothing announces new lines of the audit log, so read it again and again
            if (now := self._written()) != last:
                last, since = now, time.monotonic()

    def _written(self) -> int:
        return sum(count for (_, plural), count in self.log.writes().items() if plural != "leases")


@contextmanager
def prepared(ground: Ground, operator: Operator) -> Iterator[Servers]:
    """Start *ground*, and create all objects that *operator* needs there. Yield the URLs of the tailnet's servers."""
    with ground.up() as servers:
        operator.install(ground)
        ground.kubectl("create", "namespace", USERS)
        ground.wait_for_namespace(USERS)
        yield servers


@contextmanager
def running(ground: Ground, operator: Operator, servers: Servers) -> Iterator[Program]:
    """Run *operator* until the end of the block."""
    program = operator.start(ground, servers.control)
    try:
        yield program
    finally:
        program.process.end(_STOP)


def measured(
    ground: Ground,
    programs: Sequence[Program],
    measure: Callable[[Watched], Awaitable[Figures]],
    followed: Sequence[Selection] = FOLLOWED,
) -> Figures:
    """Run *measure* on the first of *programs* and return its result; all *programs* have to keep running.

    *followed* are the objects that the benchmark watches.

    Raises:
        BenchError: the operator didn't do its work; the text says what went wrong, with the end of the first program's
            log.
    """

    def alive() -> bool:
        return all(each.process.alive for each in programs)

    async def follow() -> Figures:
        with closing(AuditLog(ground.audit_log, USER)) as log:
            async with following(ground.kubeconfig, alive, followed) as cluster:
                return await measure(Watched(cluster, Spending(programs[0], ground), log))

    try:
        return asyncio.run(follow())
    except ExceptionGroup as group:
        if group.split((BenchError, KubeError))[1]:
            raise
        log = programs[0].log
        raise BenchError(f"{_words(group)}\n{_tail(log)}\n(the whole log: {log})") from group


def _tail(log: Path) -> str:
    """Return the last lines of the file *log*."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])


def _words(group: ExceptionGroup[Exception]) -> str:
    """Return the message of the first error in *group*."""
    first: Exception = group
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return str(first)
