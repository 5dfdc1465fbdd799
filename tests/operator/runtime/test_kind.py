"""The one way in which objects of all kinds are reconciled, for a kind of Tailnets that follows its spec."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.sim import ClusterSim
from tsoperator.api.objects import TAILNET, Key, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Decision, DeleteDevice, Note, Plan, Question, Refusal
from tsoperator.runtime.result import Pending, Result
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tsclient.errors import ControlError

from tests.support.cluster import running
from tests.support.objects import OPERATOR_NAMESPACE
from tests.support.tailnets import applier

KEY = Key("", "lab")
LAB: Object = {"apiVersion": "tailscale.com/v1alpha1", "kind": "Tailnet", "metadata": {"name": "lab"}, "spec": {}}
READY: Object = {"conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "up"}]}


@dataclass
class Ground:
    """A kind whose decision is *decision*, with a list of the calls to it."""

    decision: Decision = field(default_factory=Plan)
    left: Plan = field(default_factory=Plan)
    called: list[str] = field(default_factory=list)
    reconciler: KindReconciler[int] = field(init=False)

    def kind(self) -> Kind[int]:
        def look(obj: Object) -> int:
            return len(key_of(obj).name)

        def refused(observed: int, _obj: Object, refusal: Refusal) -> Plan:
            return Plan(notes=[Note("Warning", "Refused", str(observed))], error=refusal.error)

        return Kind(
            TAILNET,
            {},
            look,
            lambda _obj, _observed: self.decision,
            refused,
            lambda _key: self.left,
            acted=lambda obj, observed, _plan: self.called.append(f"acted {key_of(obj).name} {observed}"),
            reported=lambda obj, observed, _plan: self.called.append(f"reported {key_of(obj).name} {observed}"),
        )

    async def reconcile(self, decision: Decision) -> Result:
        self.decision = decision
        return await self.reconciler.reconcile(KEY)


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    cache, made = Cache(sources(OPERATOR_NAMESPACE)), Ground()
    made.reconciler = KindReconciler(made.kind(), cache, applier(client, cache, Tailnets([])))
    sim.store.create(kinds.TAILNET, LAB)
    async with running(cache.follow(client)):
        await cache.synced()
        yield made


async def test_a_plan_may_follow_from_an_answer(sim: ClusterSim, ground: Ground) -> None:
    async def ask() -> str:
        return "two keys"

    asked = Question(ask, lambda answer: Plan(status={**READY, "note": answer}, requeue_after=7.0))
    assert await ground.reconcile(asked) == Result(7.0)
    assert sim.store.get(kinds.TAILNET, *KEY)["status"]["note"] == "two keys"
    assert ground.called == ["acted lab 3", "reported lab 3"]


async def test_a_report_that_fails_does_not_count_as_reported(sim: ClusterSim, ground: Ground) -> None:
    sim.faults.fail(Failure(403, verb="update", plural="tailnets"))
    with pytest.raises(KubeError):
        await ground.reconcile(Plan(status=READY))
    assert ground.called == ["acted lab 3"]
    (event,) = sim.store.list(kinds.EVENT)
    assert (event["reason"], event["message"]) == ("Refused", "3")


async def test_an_object_that_waits_has_been_reported(ground: Ground) -> None:
    with pytest.raises(Pending):
        await ground.reconcile(Plan(status=READY, error=Pending(asyncio.get_running_loop().create_future())))
    assert ground.called == ["acted lab 3", "reported lab 3"]


async def test_events_about_an_object_that_is_gone_are_log_lines(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    made, cache = Ground(), Cache(sources(OPERATOR_NAMESPACE))
    made.reconciler = KindReconciler(made.kind(), cache, applier(client, cache, Tailnets([])))
    made.left = Plan(notes=[Note("Warning", "Left", "a Pod")], requeue_after=5.0)
    assert await made.reconcile(Plan()) == Result(5.0)
    assert (caplog.messages, made.called) == (["Tailnet lab: a Pod"], [])
    assert sim.store.list(kinds.EVENT) == []


async def test_an_error_for_an_object_that_is_gone_says_what_the_user_can_do(client: KubeClient) -> None:
    made, cache = Ground(), Cache(sources(OPERATOR_NAMESPACE))
    made.reconciler = KindReconciler(made.kind(), cache, applier(client, cache, Tailnets([])))
    steps = [DeleteDevice("lab", Owner("connector", KEY), "n1")]
    made.left = Plan(steps=steps, way_out="delete the Secret by hand")
    with pytest.raises(ControlError) as raised:
        await made.reconcile(Plan())
    assert raised.value.__notes__ == ["delete the Secret by hand"]
