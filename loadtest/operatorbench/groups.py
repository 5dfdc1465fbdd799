"""The second scenario: two egress groups get many Services at once, and later a few more Services one by one.

At the end, the many Services are removed at once.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from dnsbench.progress import Progress

from operatorbench.audit import entries
from operatorbench.bench import LIMIT, Load, Watched, measured, prepared, running
from operatorbench.ground import NAMESPACE, USER, Ground
from operatorbench.groupcluster import FOLLOWED, GROUPS, GroupCluster, Proxy, proxies_of, service
from operatorbench.measure import Grouped, Step, configmap_writes
from operatorbench.operators import Operator

_MORE = 8  # Services that are made one by one
_PAUSE = 1.0  # s without a change before each measurement


@dataclass(frozen=True, slots=True)
class Burst:
    """The second scenario, carried out with one running operator."""

    watched: Watched
    groups: GroupCluster
    load: Load
    entry_seconds: list[float] = field(default_factory=list)
    slice_seconds: list[float] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the Services."""
        return [f"db-{number}" for number in range(self.load.services)]

    async def measure(self, number: int, operator: Operator, progress: Progress) -> Grouped:
        """Measure all steps of the scenario, as run *number*."""
        await self.groups.start()
        await self._warm()
        progress.say(f"  making {self.load.services} Services")
        made, written = await self._make()
        progress.say(f"  made in {made.seconds:.1f} s with {made.cpu_seconds:.2f} s of CPU")
        served = await self.watched.step(self._serve)
        progress.say(f"  served in {served.seconds:.1f} s with {served.cpu_seconds:.2f} s of CPU; leaving them alone")
        idle = await self.watched.leave_alone(self.load.idle_seconds)
        rss_mb = self.watched.spending.rss_mb
        await self._add_more()
        removed = await self.watched.step(self._remove)
        progress.say(f"  removed in {removed.seconds:.1f} s with {removed.cpu_seconds:.2f} s of CPU")
        return Grouped(
            kind=operator.kind,
            run=number,
            services=self.load.services,
            groups=len(GROUPS),
            made=made,
            configmap_writes=written,
            served=served,
            idle=idle,
            entry_seconds=self.entry_seconds,
            slice_seconds=self.slice_seconds,
            removed=removed,
            rss_mb=rss_mb,
        )

    async def _warm(self) -> None:
        """Make and remove a Service for each group, so that the operator's first connections aren't measured."""
        names = [f"first-{group}" for group in GROUPS]
        await self.watched.cluster.apply(service(number, name) for number, name in enumerate(names))
        await self._until_served(names)
        await self._until_removed(names)
        await self.watched.settle()

    async def _make(self) -> tuple[Step, Counter[str]]:
        """Return the figures of the step that makes all Services, and how often each ConfigMap was written in it."""
        cluster, names, before = self.watched.cluster, self.names, self._configmap_writes()

        async def make() -> float:
            started = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(cluster.apply(service(number, name) for number, name in enumerate(names)))
                await self._until_written(names)
            return time.monotonic() - started

        step = await self.watched.step(make)
        return step, self._configmap_writes() - before

    def _configmap_writes(self) -> Counter[str]:
        return configmap_writes(entries(self.watched.spending.ground.audit_log), USER)

    async def _serve(self) -> float:
        started = time.monotonic()
        await self._until_served(self.names)
        return time.monotonic() - started

    async def _until_served(self, names: list[str]) -> None:
        """Wait for the entries of the Services *names*, let all proxies report, and wait for the EndpointSlices."""
        await self._until_written(names)
        await self.groups.all_report()
        for number, group in enumerate(GROUPS):
            for proxy in proxies_of(group):
                await self._until_proxy_serves(proxy, names[number :: len(GROUPS)])

    async def _add_more(self) -> None:
        """Create Services for the first group, one after the other.

        For each Service, measure the time until its entry is written, and the time from each proxy's report until the
        EndpointSlice has this proxy.
        """
        names = [f"more-{number}" for number in range(_MORE)]
        for name in names:
            await asyncio.sleep(_PAUSE)
            started = time.monotonic()
            await self.watched.cluster.apply([service(0, name)])
            await self._until_written([name])
            self.entry_seconds.append(time.monotonic() - started)
            for proxy in proxies_of(GROUPS[0]):
                await asyncio.sleep(_PAUSE)
                started = time.monotonic()
                await self.groups.report(proxy)
                await self._until_proxy_serves(proxy, [name])
                self.slice_seconds.append(time.monotonic() - started)
        await self._until_removed(names)
        await self.watched.settle()

    async def _until_written(self, names: list[str]) -> None:
        await self.watched.cluster.until(lambda: self.groups.written(names), LIMIT, f"{len(names)} entries are written")

    async def _until_proxy_serves(self, proxy: Proxy, names: list[str]) -> None:
        what = f"{len(names)} slices have {proxy.name}"
        await self.watched.cluster.until(lambda: self.groups.serves(proxy, names), LIMIT, what)

    async def _until_removed(self, names: list[str]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watched.cluster.delete(names))
            await self.watched.cluster.until(lambda: self.groups.gone(names), LIMIT, "all of them are gone")

    async def _remove(self) -> float:
        started = time.monotonic()
        await self._until_removed(self.names)
        return time.monotonic() - started


def run(ground: Ground, operator: Operator, load: Load, number: int, progress: Progress) -> Grouped:
    """Run the scenario with *operator* on a fresh cluster, and return its figures.

    Raises:
        BenchError: a program didn't start, or the operator didn't do its work. The text has the end of a log.
    """
    progress.say(f"run {number}: {load.services} Services of {len(GROUPS)} ProxyGroups, {operator.kind}")
    with prepared(ground, operator) as servers:
        ground.wait_for_namespace(NAMESPACE)
        with running(ground, operator, servers) as program:
            return measured(
                ground,
                [program],
                lambda watched: Burst(watched, GroupCluster(watched.cluster), load).measure(number, operator, progress),
                FOLLOWED,
            )
