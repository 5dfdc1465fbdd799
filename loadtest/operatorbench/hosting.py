"""The fourth scenario: two ProxyGroups expose many Ingresses and Services at once. After that, nobody changes them."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dnsbench.progress import Progress

from operatorbench.bench import LIMIT, Load, Watched, measured, prepared, running
from operatorbench.ground import NAMESPACE, Ground
from operatorbench.hostingcluster import FOLLOWED, Exposed, HostingCluster, exposed, identity
from operatorbench.keeper import Keeper, keeper
from operatorbench.manifests import ingress_class
from operatorbench.measure import Hosting, Step
from operatorbench.operators import Operator

_LIMIT = 3 * LIMIT  # s until all objects must work; it is so long because the Go operator takes long
_FIRST = 5  # objects that are made and removed before the measurement


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The fourth scenario, carried out with one running operator."""

    watched: Watched
    keeper: Keeper
    load: Load

    async def measure(self, number: int, operator: Operator, progress: Progress) -> Hosting:
        """Measure all steps of the scenario, as run *number*."""
        cluster, names = HostingCluster(self.watched.cluster, self.keeper), exposed(self.load.services)
        async with cluster.running():
            await cluster.prepare(names)
            await self._warm(cluster)
            progress.say(f"  making {len(names.ingresses)} Ingresses and {len(names.services)} Services")
            made, calls = await self._counted(lambda: self._make(cluster, names))
            progress.say(f"  made in {made.seconds:.1f} s with {made.cpu_seconds:.2f} s of CPU; leaving them alone")
            idle, idle_calls = await self._counted(self._leave_alone)
            return Hosting(
                kind=operator.kind,
                run=number,
                services=self.load.services,
                ingresses=len(names.ingresses),
                made=made,
                calls=calls,
                idle=idle,
                idle_calls=idle_calls,
                rss_mb=self.watched.spending.rss_mb,
            )

    async def _warm(self, cluster: HostingCluster) -> None:
        """Create and delete some objects, so that the operator's start and its first connections are not measured."""
        names = exposed(_FIRST, "first-")
        await cluster.prepare(names)
        await cluster.expose(names)
        await self._until(lambda: cluster.reported(names), "the first objects are exposed")
        await cluster.remove(names)
        await self._until(lambda: cluster.gone(names), "the first objects are gone")
        await self.watched.settle()

    async def _make(self, cluster: HostingCluster, names: Exposed) -> Step:
        async def make() -> float:
            started = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(cluster.expose(names))
                await self._until(
                    lambda: cluster.reported(names), "all statuses say how the tailnet reaches the objects"
                )
            return time.monotonic() - started

        return await self.watched.step(make)

    async def _leave_alone(self) -> Step:
        return await self.watched.leave_alone(self.load.idle_seconds)

    async def _counted(self, act: Callable[[], Awaitable[Step]]) -> tuple[Step, Counter[str]]:
        """Run *act*, which measures a step. Return the figures, and the number of requests to the control server."""
        before = await self.keeper.calls()
        step = await act()
        return step, await self.keeper.calls() - before

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        await self.watched.cluster.until(holds, _LIMIT, what)


def run(ground: Ground, operator: Operator, load: Load, number: int, progress: Progress) -> Hosting:
    """Run the scenario with *operator* on a fresh cluster, and return its figures.

    Raises:
        BenchError: a program didn't start, or the operator didn't do its work. The text has the end of a log.
    """
    progress.say(f"run {number}: {load.services} Ingresses and Services that ProxyGroups expose, {operator.kind}")
    with prepared(ground, operator) as servers:
        ground.wait_for_namespace(NAMESPACE)
        for obj in (ingress_class(), identity()):
            ground.kubectl("create", "-f", "-", stdin=json.dumps(obj))

        async def measure(watched: Watched) -> Hosting:
            async with keeper(servers.keeper) as told:
                return await AtOnce(watched, told, load).measure(number, operator, progress)

        with running(ground, operator, servers) as program:
            return measured(ground, [program], measure, FOLLOWED)
