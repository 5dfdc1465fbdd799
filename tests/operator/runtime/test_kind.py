"""The reconcile of an object of any kind, tested with a kind whose decision is set by the test."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.sim import ClusterSim
from tsoperator.api.objects import TAILNET, Key, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.journal import Journal
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Child, Decision, DeleteDevice, Note, Plan, Question, Refusal, Report
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
    """A kind whose decision is always *decision*, and the list of its functions that were called."""

    decision: Decision = field(default_factory=Plan)
    reports: list[Report] = field(default_factory=list)
    """The reports of the decision about `MANY`, a key that names no object."""
    called: list[str] = field(default_factory=list)
    reconciler: KindReconciler[int] = field(init=False)
    other: KindReconciler[int] = field(init=False)
    """The reconciler of another kind, which reports on the same objects."""
    journal: Journal = field(init=False)

    def kind(self) -> Kind[int]:
        def look(key: Key, _obj: Object) -> int:
            return len(key.name)

        def refused(observed: int, obj: Object, refusal: Refusal) -> Plan:
            notes = [Note("Warning", "Refused", str(observed))]
            reports = [] if obj else [replace(each, notes=notes, status=None) for each in self.reports]
            return Plan(notes=notes if obj else (), reports=reports, error=refusal.error)

        return Kind(
            TAILNET,
            {},
            look,
            lambda _obj, _observed: self.decision,
            refused,
            acted=lambda obj, observed, _plan: self.called.append(f"acted {name_of(obj)} {observed}"),
            reported=lambda obj, observed, _plan: self.called.append(f"reported {name_of(obj)} {observed}"),
        )

    async def reconcile(self, decision: Decision, key: Key = KEY) -> Result:
        self.decision = decision
        return await self.reconciler.reconcile(key)


def name_of(obj: Object) -> str:
    return key_of(obj).name if obj else "nothing"


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    cache, made = Cache(sources(OPERATOR_NAMESPACE)), Ground()
    acting = applier(client, cache, Tailnets([]))
    made.reconciler, made.journal = KindReconciler(made.kind(), cache, acting), acting.journal
    made.other = KindReconciler(replace(made.kind(), name="other"), cache, acting)
    sim.store.create(kinds.TAILNET, LAB)
    async with running(cache.follow(client)):
        await cache.synced()
        yield made


async def test_a_decision_can_ask_a_question_and_make_its_plan_from_the_answer(sim: ClusterSim, ground: Ground) -> None:
    async def ask() -> str:
        return "two keys"

    asked = Question(ask, lambda answer: Plan(status={**READY, "note": answer}, requeue_after=7.0))
    assert await ground.reconcile(asked) == Result(7.0)
    assert sim.store.get(kinds.TAILNET, *KEY)["status"]["note"] == "two keys"
    assert ground.called == ["acted lab 3", "reported lab 3"]


async def test_the_function_that_a_kind_runs_after_a_report_is_not_called_if_the_status_cannot_be_written(
    sim: ClusterSim, ground: Ground
) -> None:
    sim.faults.fail(Failure(403, verb="update", plural="tailnets"))
    with pytest.raises(KubeError):
        await ground.reconcile(Plan(status=READY))
    assert ground.called == ["acted lab 3"]
    (event,) = sim.store.list(kinds.EVENT)
    assert (event["reason"], event["message"]) == ("Refused", "3")


async def test_the_status_of_an_object_is_written_before_its_reconcile_waits(ground: Ground) -> None:
    with pytest.raises(Pending):
        await ground.reconcile(Plan(status=READY, error=Pending(asyncio.get_running_loop().create_future())))
    assert ground.called == ["acted lab 3", "reported lab 3"]


async def test_the_warning_of_one_kind_lasts_until_this_kind_reports_on_the_object_without_it(
    sim: ClusterSim, ground: Ground
) -> None:
    def warnings() -> list[str]:
        return [each.reason for each in ground.journal.warnings(sim.store.get(kinds.TAILNET, *KEY))]

    ground.decision = Plan(steps=[Child(CHILD)])
    sim.faults.fail(Failure(403, verb="create", plural="serviceaccounts"))
    with pytest.raises(KubeError):
        await ground.other.reconcile(KEY)
    await ground.reconcile(Plan(notes=[Note("Warning", "Left", "a Pod")]))
    await ground.reconcile(Plan())
    assert warnings() == ["Refused"]
    ground.decision = Plan()
    await ground.other.reconcile(KEY)
    assert warnings() == []


async def test_an_event_about_an_object_that_is_gone_is_only_logged(
    sim: ClusterSim, ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    left = Plan(notes=[Note("Warning", "Left", "a Pod")], requeue_after=5.0)
    assert await ground.reconcile(left, Key("", "gone")) == Result(5.0)
    assert (caplog.messages, ground.called) == (["Tailnet gone: a Pod"], ["acted nothing 4", "reported nothing 4"])
    assert sim.store.list(kinds.EVENT) == []


async def test_an_error_for_an_object_that_is_gone_says_what_the_user_can_do(ground: Ground) -> None:
    steps = [DeleteDevice("lab", Owner("connector", KEY), "n1")]
    left = Plan(steps=steps, way_out="delete the Secret by hand")
    with pytest.raises(ControlError) as raised:
        await ground.reconcile(left, Key("", "gone"))
    assert raised.value.__notes__ == ["delete the Secret by hand"]


CHILD: Object = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"namespace": OPERATOR_NAMESPACE, "name": "both"},
}
MANY = Key("labs", "")
"""A key that names no object, but stands for two Tailnets."""


def reports(sim: ClusterSim) -> list[Report]:
    """Create a second Tailnet. Return a `Report` for each of the two: a condition and an Event to write."""
    sim.store.create(kinds.TAILNET, {**LAB, "metadata": {"name": "sea"}})
    return [Report(each, READY, [Note("Normal", "Seen", "both")]) for each in sim.store.list(kinds.TAILNET)]


def events(sim: ClusterSim) -> list[tuple[str, str]]:
    return sorted((each["involvedObject"]["name"], each["reason"]) for each in sim.store.list(kinds.EVENT))


async def test_a_plan_can_report_on_several_objects_but_its_writes_are_logged_once(
    sim: ClusterSim, ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tsoperator")
    plan = Plan(steps=[Child(CHILD)], reports=reports(sim), requeue_after=3.0)
    assert await ground.reconcile(plan, MANY) == Result(3.0)
    assert [words for words in caplog.messages if "made" in words] == [
        f"Tailnet lab: made ServiceAccount {OPERATOR_NAMESPACE}/both"
    ]
    assert [each["status"]["conditions"][0]["reason"] for each in sim.store.list(kinds.TAILNET)] == ["Up", "Up"]
    assert events(sim) == [("lab", "Seen"), ("sea", "Seen")]


REFUSED = {"a step": ("create", "serviceaccounts"), "a report": ("update", "tailnets")}


@pytest.mark.parametrize(("verb", "plural"), REFUSED.values(), ids=REFUSED)
async def test_a_refusal_is_reported_on_each_object_on_which_the_plan_reports(
    sim: ClusterSim, ground: Ground, verb: str, plural: str
) -> None:
    ground.reports = reports(sim)
    plan = Plan(steps=[Child(CHILD)], reports=[replace(each, notes=()) for each in ground.reports])
    sim.faults.fail(Failure(403, verb=verb, plural=plural))
    with pytest.raises(KubeError):
        await ground.reconcile(plan, MANY)
    assert events(sim) == [("lab", "Refused"), ("sea", "Refused")]
