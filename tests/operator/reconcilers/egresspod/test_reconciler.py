"""The gate on a simulated cluster without kubelets: each test sets the answers of the Pods."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import pytest
from clustersim.faults import LOST, Ban, Failure
from clustersim.health import Answer, HealthProxy
from clustersim.objects import EVENT, POD
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from prometheus_client import CollectorRegistry
from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import POD as TSOPERATOR_POD
from tsoperator.api.objects import Object, key_of, resource_of
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.egresspod.plan import Check, Observed
from tsoperator.reconcilers.egresspod.probes import GatePace, GateProber, ask_by_http, health_session
from tsoperator.reconcilers.egresspod.reconciler import egresspods
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.kind import KindReconciler
from tsoperator.runtime.manager import Manager
from tsoperator.runtime.result import Pending, Result
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets

from tests.operator.reconcilers.egresspod.objects import POD_IP, USER, config, endpoints, gate, group, pod, service
from tests.support.cluster import kube_client, put, running, until
from tests.support.objects import HOLD, OPERATOR_NAMESPACE, settings
from tests.support.tailnets import applier

OTHER_IP = "192.0.2.8"
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}],
}
WAITING = pod(POD_IP, status=RUNNING)
PLACELESS = pod(status=RUNNING)


@dataclass
class Scene:
    """A cluster without kubelets, with Pods that answer health requests.

    A Pod gives the *answers* for its address in order. After these it answers with status 200.
    """

    sim: ClusterSim
    client: KubeClient
    answers: dict[str, deque[Answer | None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ask(self, address: str, _port: int) -> Answer | None:
        self.asked.append(address)
        scripted = self.answers.get(address)
        return scripted.popleft() if scripted else (200, {"Pod-IPv4": address})

    async def make(self, *objects: Object) -> None:
        await put(self.client, *objects)

    async def change(self, wanted: Object) -> None:
        """Replace the live object of the same name by *wanted*. If *wanted* has a status, replace only the status."""
        live = await self.client.get(resource_of(wanted), key_of(wanted))
        changed = {**live, **{name: value for name, value in wanted.items() if name != "metadata"}}
        write = self.client.replace_status if "status" in wanted else self.client.replace
        await write(resource_of(wanted), changed)

    async def delete(self, obj: Object) -> None:
        await self.client.delete(resource_of(obj), key_of(obj))

    @property
    def is_open(self) -> bool:
        found = self.sim.store.find(POD, *key_of(WAITING)) or {"status": {}}
        conditions = found["status"].get("conditions") or ()
        return (EGRESS_GATE, "True") in {(each["type"], each["status"]) for each in conditions}


def by_hand(client: KubeClient, cache: Cache, prober: GateProber) -> KindReconciler[Observed]:
    kind = egresspods(cache, client, prober, settings(cluster_domain="k8s.example.org"))
    return KindReconciler(kind, cache, applier(client, cache, Tailnets([])))


@asynccontextmanager
async def reconciling(client: KubeClient) -> AsyncIterator[Callable[[], float]]:
    """Run only the reconciler of egress Pods, and yield a function that returns the number of successful reconciles."""
    cache, registry = Cache(sources(OPERATOR_NAMESPACE)), CollectorRegistry()
    ended = {"controller": "egresspod", "outcome": "success"}
    async with health_session(in_cluster=False) as session:
        prober = GateProber(partial(ask_by_http, session))
        reconciler = by_hand(client, cache, prober)
        manager = Manager(cache, [reconciler], ControllerMetrics(registry))
        async with running(manager.run(client, None, beside=[prober.run])):
            yield lambda: registry.get_sample_value("tsoperator_reconciles_total", ended) or 0


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """A cluster without Pods, on which no reconciler runs yet."""
    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        made = Scene(sim, client)
        async with HealthProxy(sim.store, made.ask).serve() as url:
            monkeypatch.setenv("http_proxy", url)
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            yield made


async def test_a_gate_opens_when_each_service_routes_to_the_pod(scene: Scene) -> None:
    scene.answers[POD_IP] = deque([None, (503, {"Pod-IPv4": POD_IP}), (503, {})])
    await scene.make(WAITING, config([USER]), service(), endpoints(OTHER_IP, POD_IP), group())
    async with reconciling(scene.client):
        await until(lambda: scene.is_open)
    assert scene.asked.count(POD_IP) == 4
    live = scene.sim.store.get(POD, *key_of(WAITING))["status"]
    assert (live["phase"], live["podIP"], live["conditions"][0]) == ("Running", POD_IP, RUNNING["conditions"][0])
    assert live["conditions"][1]["lastTransitionTime"]


Change = Callable[[Scene], Awaitable[None]]
WAITS: dict[str, tuple[Sequence[Object], Change]] = {
    "an endpoint": ([WAITING, endpoints(OTHER_IP), group()], lambda scene: scene.change(endpoints(POD_IP))),
    "an EndpointSlice": ([WAITING, group()], lambda scene: scene.make(endpoints(POD_IP))),
    "the end of the Service": ([WAITING, group()], lambda scene: scene.delete(service())),
    "the end of the entry": ([WAITING, group()], lambda scene: scene.change(config([]))),
    "the group": ([WAITING, endpoints(POD_IP)], lambda scene: scene.make(group())),
    "an address": ([PLACELESS, endpoints(POD_IP), group()], lambda scene: scene.change(WAITING)),
}


@pytest.mark.parametrize(("there", "then"), WAITS.values(), ids=WAITS)
async def test_a_gate_opens_when_a_change_of_an_object_ends_the_wait(
    scene: Scene, there: Sequence[Object], then: Change
) -> None:
    await scene.make(config([USER]), service(), *there)
    async with reconciling(scene.client) as looks:
        await until(looks)
        assert (scene.is_open, scene.asked) == (False, [])
        await then(scene)
        await until(lambda: scene.is_open)


@pytest.mark.parametrize("status", [409, 500, LOST])
async def test_a_gate_opens_even_if_the_first_write_of_its_condition_fails(scene: Scene, status: int) -> None:
    await scene.make(WAITING, group())
    scene.sim.faults.fail(Failure(status, verb="update", plural="pods"))
    async with reconciling(scene.client):
        await until(lambda: scene.is_open)


async def test_the_condition_of_an_open_gate_is_not_written_again(scene: Scene) -> None:
    await scene.make(pod(POD_IP, status=gate("True")), group(), config([USER]), service(), endpoints(OTHER_IP))
    async with reconciling(scene.client) as looks:
        await until(looks)
        writes = scene.sim.writes.copy()
        await scene.change(endpoints(OTHER_IP, POD_IP))
        await scene.client.patch(TSOPERATOR_POD, key_of(WAITING), {"metadata": {"labels": {"team": "x"}}})
        await until(lambda: looks() > 1)
    written = {(verb, plural) for _, verb, plural in scene.sim.writes_since(writes)}
    assert (written, scene.asked) == ({("update", "endpointslices"), ("patch", "pods")}, [])


async def is_replaced(scene: Scene) -> None:
    await scene.delete(WAITING)
    await scene.make(WAITING)


async def is_gone(scene: Scene) -> None:
    await scene.delete(WAITING)


async def is_leaving(scene: Scene) -> None:
    await scene.client.patch(TSOPERATOR_POD, key_of(WAITING), HOLD)
    await scene.delete(WAITING)


@pytest.mark.parametrize("then", [is_replaced, is_leaving, is_gone])
async def test_the_gate_of_a_pod_stays_closed_if_the_pod_was_replaced_or_deleted_since_the_cache_read_it(
    scene: Scene, then: Change
) -> None:
    await scene.make(WAITING, group())
    cache = Cache(sources(OPERATOR_NAMESPACE))
    async with running(cache.follow(scene.client)):
        await cache.synced()
    await then(scene)  # the cache has stopped, and doesn't see the change
    async with health_session(in_cluster=False) as session:
        reconciler = by_hand(scene.client, cache, GateProber(partial(ask_by_http, session)))
        assert await reconciler.reconcile(key_of(WAITING)) == Result()
    assert not scene.is_open


async def test_the_prober_asks_no_service_about_a_pod_that_is_gone(scene: Scene) -> None:
    await scene.make(WAITING, config([USER]), service(), endpoints(POD_IP), group())
    began, ended, cache = asyncio.Event(), asyncio.Event(), Cache(sources(OPERATOR_NAMESPACE))
    asked = []

    async def ask(check: Check) -> NoReturn:
        asked.append(check.url)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    prober = GateProber(ask, pace=GatePace(timeout=3600))
    reconciler = by_hand(scene.client, cache, prober)
    async with running(cache.follow(scene.client), prober.run()):
        await cache.synced()
        with pytest.raises(Pending):
            await reconciler.reconcile(key_of(WAITING))
        await began.wait()
        await scene.delete(WAITING)
        await until(lambda: cache.get(TSOPERATOR_POD, key_of(WAITING)) is None)
        await reconciler.reconcile(key_of(WAITING))
        await until(ended.is_set)
    assert asked == ["http://ts-db.tailscale.svc.k8s.example.org:9002/healthz"]


async def test_a_gate_opens_even_while_twenty_other_pods_wait(scene: Scene) -> None:
    waiting = [f"192.0.2.{number}" for number in range(100, 120)]
    scene.answers = {ip: deque([(503, {})] * 1000) for ip in waiting}
    others = [pod(ip, status=RUNNING) for ip in waiting]
    for number, other in enumerate(others):
        other["metadata"]["name"] = f"foo-{number + 1}"
    await scene.make(*others, config([USER]), service(), endpoints(*waiting), group())
    async with reconciling(scene.client):
        await until(lambda: {*waiting} <= {*scene.asked})
        await scene.change(endpoints(POD_IP, waiting[0]))
        await scene.make(WAITING)
        await until(lambda: scene.is_open)


async def test_a_refused_write_of_a_gate_is_reported_by_an_event(scene: Scene) -> None:
    await scene.make(WAITING, group())
    scene.sim.faults.forbid(Ban("pods", OPERATOR_NAMESPACE, "update"))
    async with reconciling(scene.client):
        await until(lambda: any(each["reason"] == "EgressGateFailed" for each in scene.sim.store.list(EVENT)))
        scene.sim.faults.clear()
        await until(lambda: scene.is_open)
