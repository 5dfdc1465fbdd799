"""The first scenario: all egress Services are made at once, left unchanged for a while, and removed at once."""

import asyncio
import time
from dataclasses import dataclass

from dnsbench.progress import Progress

from operatorbench.bench import LIMIT, Load, Watched, measured, prepared, running
from operatorbench.ground import Ground
from operatorbench.measure import Sample, Step
from operatorbench.operators import Operator


@dataclass(frozen=True, slots=True)
class Burst:
    """The first scenario, carried out with one running operator."""

    watched: Watched
    load: Load

    @property
    def service_names(self) -> list[str]:
        """The names of the Services."""
        return [f"db-{number}" for number in range(self.load.services)]

    async def measure(self, number: int, operator: Operator, progress: Progress) -> Sample:
        """Measure all steps of the scenario, as run *number*."""
        await self.watched.warm()
        progress.say(f"  making {self.load.services} Services")
        made, reported_seconds = await self._make()
        progress.say(f"  made in {made.seconds:.1f} s with {made.cpu_seconds:.2f} s of CPU; leaving them alone")
        idle = await self.watched.leave_alone(self.load.idle_seconds)
        rss_mb = self.watched.spending.rss_mb
        removed = await self.watched.step(self._remove)
        progress.say(f"  removed in {removed.seconds:.1f} s with {removed.cpu_seconds:.2f} s of CPU")
        return Sample(
            kind=operator.kind,
            run=number,
            services=self.load.services,
            made=made,
            reported_seconds=reported_seconds,
            idle=idle,
            removed=removed,
            rss_mb=rss_mb,
            peak_mb=self.watched.spending.peak_mb,
        )

    async def _make(self) -> tuple[Step, float]:
        reported_seconds = 0.0
        cluster = self.watched.cluster

        async def make() -> float:
            nonlocal reported_seconds
            started, count = time.monotonic(), self.load.services
            async with asyncio.TaskGroup() as group:
                group.create_task(cluster.create(self.service_names))
                await cluster.until(lambda: cluster.has_statefulsets(count), LIMIT, "all StatefulSets are there")
                seconds = time.monotonic() - started
            await cluster.until(lambda: cluster.reported(count), LIMIT, "all Services say that their proxies are made")
            reported_seconds = time.monotonic() - started
            return seconds

        return await self.watched.step(make), reported_seconds

    async def _remove(self) -> float:
        started, cluster = time.monotonic(), self.watched.cluster
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.delete(self.service_names))
            await cluster.until(cluster.gone, LIMIT, "all Services and what was made for them are gone")
        return time.monotonic() - started


def run(ground: Ground, operator: Operator, load: Load, number: int, progress: Progress) -> Sample:
    """Run the scenario with *operator* on a fresh cluster, and return its figures.

    Raises:
        BenchError: a program didn't start, or the operator didn't do its work. The text has the end of a log.
    """
    progress.say(f"run {number}: {operator.kind}")
    with prepared(ground, operator) as servers, running(ground, operator, servers) as program:
        return measured(ground, [program], lambda watched: Burst(watched, load).measure(number, operator, progress))
