"""A parent on a simulated API server, and the applier that carries out and reports plans for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsoperator.api.conditions import condition
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, SECRET, Key, Object, Resource, key_of, resource_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteDevice, Errand, Note, Patch, Plan, Refusal, Step
from tsoperator.runtime.result import Result
from tsoperator.tailnet.refusals import refusal_of

from tests.support.cluster import running, until

OTHERS = "example.org/theirs"
A = Key("tailscale", "a")
KINDS = {CONFIGMAP: kinds.CONFIGMAP, DNSCONFIG: kinds.DNSCONFIG, SECRET: kinds.SECRET}


def child(name: str = "a", *finalizers: str, **data: str) -> Object:
    """Return a ConfigMap that a plan of a test makes as a child."""
    held = {"finalizers": [*finalizers]} if finalizers else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "tailscale", "name": name, "labels": {"app": name}, **held},
        "data": data,
    }


def secret_patch(value: str) -> Patch:
    return Patch(SECRET, Key("tailscale", "state"), {"data": {"k": value}})


def delete_device(node_id: str) -> DeleteDevice:
    return DeleteDevice("", Owner("nameserver", Key("", "parent")), node_id)


def failed(_parent: Object, refusal: Refusal) -> Plan:
    """Return a plan that reports *refusal*."""
    told = condition("Ready", False, refusal.reason or "Failed", refusal.message)
    return Plan(status={"conditions": [told]}, notes=[Note("Warning", "Failed", refusal.message)])


@dataclass
class Ground:
    """An applier, the cache that it reads, and a parent."""

    sim: ClusterSim
    cache: Cache
    applier: Applier
    devices: list[tuple[int, str]] = field(default_factory=list)
    time: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    error: Exception | None = None
    """The exception that every errand raises, if it isn't None."""

    async def run_errand(self, step: Errand) -> None:
        if self.error:
            raise self.error
        assert isinstance(step, DeleteDevice)
        self.devices.append((self.sim.store.revision, step.device))

    def put(self, obj: Object) -> Object:
        """Create *obj* as somebody other than the operator."""
        return self.sim.store.create(KINDS[resource_of(obj)], obj)

    def live(self, resource: Resource, key: Key) -> Object | None:
        return self.sim.store.find(KINDS[resource], *key)

    def there(self, resource: Resource, key: Key) -> Object:
        found = self.live(resource, key)
        assert found is not None
        return found

    @property
    def parent(self) -> Object:
        return self.sim.store.get(kinds.DNSCONFIG, "", "parent")

    async def caught_up(self) -> None:
        """Wait until the cache has the same objects as the API server."""
        await until(lambda: all(self._same(resource) for resource in (CONFIGMAP, SECRET)))

    def _same(self, resource: Resource) -> bool:
        live = self.sim.store.list(KINDS[resource], "tailscale")
        return live == sorted(self.cache.all(resource), key=key_of)

    async def act(self, *steps: Step, **plan: Any) -> Object:
        await self.caught_up()
        return await self.applier.act(self.parent, Plan(steps=steps, **plan), failed)

    async def report(self, status: Object | None = None, **plan: Any) -> Result:
        return await self.applier.report(self.parent, Plan(status=status, **plan), failed)

    def condition(self) -> Object:
        found: Object = self.parent["status"]["conditions"][0]
        return found

    def event(self) -> Object:
        [event] = self.sim.store.list(kinds.EVENT)
        return event


@asynccontextmanager
async def written(ground: Ground) -> AsyncIterator[dict[tuple[str, str], int]]:
    """Yield the numbers of the writes in the block, by verb and resource. They are complete at the end of the block."""
    before = ground.sim.writes.copy()
    writes: dict[tuple[str, str], int] = {}
    yield writes
    writes |= {(verb, plural): count for (_, verb, plural), count in ground.sim.writes_since(before).items()}


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    cache = Cache(
        [Source(Selection(DNSCONFIG)), *(Source(Selection(kind, "tailscale")) for kind in (CONFIGMAP, SECRET))]
    )
    ground: Ground

    async def run_errand(step: Errand) -> None:
        await ground.run_errand(step)

    applier = Applier(client, cache, EventRecorder(client), run_errand, refusal_of, now=lambda: ground.time)
    ground = Ground(sim, cache, applier)
    sim.store.create(kinds.DNSCONFIG, {"metadata": {"name": "parent", "finalizers": [OTHERS]}, "spec": {}})
    sim.store.create(kinds.SECRET, {"metadata": {"namespace": "tailscale", "name": "state"}, "data": {"state": "eA=="}})
    async with running(cache.follow(client)):
        await cache.synced()
        yield ground
