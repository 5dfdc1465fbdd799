"""Plans carried out on a simulated API server: what is written, in which order, and what is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.history import Change
from clustersim.sim import ClusterSim
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import (
    CONFIGMAP,
    DNSCONFIG,
    SECRET,
    Key,
    Object,
    Resource,
    key_of,
    labels,
    resource_of,
)
from tsoperator.desired.children import Owner
from tsoperator.desired.plan import (
    Child,
    Creation,
    DeleteDevice,
    Deletion,
    Errand,
    Note,
    Patch,
    Plan,
    Refusal,
    Step,
    to_create,
)
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, Rejected, StatusError
from tsoperator.kube.watch import Selection
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.result import Pending, Result
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tsclient.errors import Unavailable

from tests.support.cluster import running, until

OTHERS = "example.org/theirs"
KINDS = {CONFIGMAP: kinds.CONFIGMAP, DNSCONFIG: kinds.DNSCONFIG, SECRET: kinds.SECRET}


def child(name: str = "a", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "tailscale", "name": name, "labels": {"app": name}},
        "data": data,
    }


def secret_patch(value: str) -> Patch:
    return Patch(SECRET, Key("tailscale", "state"), {"data": {"k": value}})


def delete_device(node_id: str) -> DeleteDevice:
    return DeleteDevice("", Owner("nameserver", Key("", "parent")), node_id)


def failed(_parent: Object, refusal: Refusal) -> Plan:
    """Return a plan that tells of *refusal*."""
    told = condition("Ready", False, refusal.reason or "Failed", refusal.message)
    return Plan(status={"conditions": [told]}, notes=[Note("Warning", "Failed", refusal.message)])


@dataclass
class Ground:
    """An applier, the cache that it looks in, and a parent; what changes is noted in order."""

    sim: ClusterSim
    cache: Cache
    applier: Applier
    devices: list[tuple[int, str]] = field(default_factory=list)
    time: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    error: Exception | None = None
    """What errands raise."""

    async def run_errand(self, step: Errand) -> None:
        if self.error:
            raise self.error
        assert isinstance(step, DeleteDevice)
        self.devices.append((self.sim.store.revision, step.device))

    def put(self, obj: Object) -> Object:
        """Create *obj* as somebody else does."""
        return self.sim.store.create(KINDS[resource_of(obj)], obj)

    def live(self, resource: Resource, key: Key) -> Object | None:
        return self.sim.store.find(KINDS[resource], *key)

    @property
    def parent(self) -> Object:
        return self.sim.store.get(kinds.DNSCONFIG, "", "parent")

    async def caught_up(self) -> None:
        """Wait until the cache holds what the API server does."""
        await until(lambda: all(self._same(resource) for resource in (CONFIGMAP, SECRET)))

    def _same(self, resource: Resource) -> bool:
        live = self.sim.store.list(KINDS[resource], "tailscale")
        return live == sorted(self.cache.all(resource), key=key_of)

    async def apply(self, *steps: Step, **plan: Any) -> Object:
        await self.caught_up()
        return await self.applier.apply(self.parent, Plan(steps=steps, **plan))

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


@asynccontextmanager
async def written(ground: Ground) -> AsyncIterator[dict[tuple[str, str], int]]:
    """Yield the writes that are made in the block, known at its end."""
    before = ground.sim.writes.copy()
    writes: dict[tuple[str, str], int] = {}
    yield writes
    writes |= {(verb, plural): count for (_, verb, plural), count in ground.sim.writes_since(before).items()}


def happened(changes: list[Change], ground: Ground) -> list[str]:
    """Return what happened, in order."""
    noted = [(change.revision, f"{change.type} {change.object['metadata']['name']}") for change in changes]
    return [what for _, what in sorted([*noted, *((revision, f"device {name}") for revision, name in ground.devices)])]


async def test_a_creation_never_replaces_an_object(ground: Ground) -> None:
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "tailscale", "name": "new"}, "data": {}}
    await ground.apply(Creation(made))
    ground.sim.store.merge(kinds.SECRET, "tailscale", "new", {"data": {"state": "eA=="}})
    with pytest.raises(Conflict):
        await ground.apply(Creation(made))
    live = ground.live(SECRET, Key("tailscale", "new"))
    assert live is not None
    assert live["data"] == {"state": "eA=="}


async def test_a_child_that_lost_its_labels_is_given_them_back(ground: Ground) -> None:
    """The cache sees of this kind only what is labelled."""
    await ground.apply(Child(secret("new")))
    ground.sim.store.merge(kinds.SECRET, "tailscale", "new", {"metadata": {"labels": None}})
    with pytest.raises(AlreadyExists):
        await ground.apply(Creation(secret("new")))
    live = ground.live(SECRET, Key("tailscale", "new"))
    assert live is not None
    assert labels(live) == {"app": "new"}


@pytest.mark.parametrize("wanted", [Creation, Child], ids=["unseen", "seen"])
async def test_a_strangers_object_is_in_the_way_and_left_alone(ground: Ground, wanted: Any) -> None:
    theirs = ground.put({"metadata": {"namespace": "tailscale", "name": "new"}, "kind": "Secret", "apiVersion": "v1"})
    with pytest.raises(Rejected, match="Secret tailscale/new is in the way: it is not the operator's"):
        await ground.apply(wanted(secret("new")))
    assert ground.live(SECRET, Key("tailscale", "new")) == theirs


def secret(name: str) -> Object:
    metadata = {"namespace": "tailscale", "name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}


async def test_a_plan_is_carried_out_in_order(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP, kinds.DNSCONFIG, kinds.SECRET) as changes:
        parent = await ground.apply(
            delete_device("n1"), delete_device("n2"), Child(child("a")), secret_patch("dg=="), Child(child("b")),
            Deletion(CONFIGMAP, old), hold=FINALIZER,
        )  # fmt: skip
        await ground.applier.report(parent, Plan(status={"conditions": []}, release=FINALIZER), failed)
        assert happened(await changes.batch(), ground) == [
            "MODIFIED parent", "device n1", "device n2", "ADDED a", "MODIFIED state", "ADDED b", "DELETED old",
            "MODIFIED parent", "MODIFIED parent",
        ]  # fmt: skip


async def test_a_plan_that_is_carried_out_writes_nothing_again(ground: Ground) -> None:
    steps = [Child(child("a", k="v")), Child(child("b"))]
    status = {"conditions": [condition("Ready", True, "Up", "all is well")]}
    await ground.apply(*steps, hold=FINALIZER)
    await ground.report(status)
    async with written(ground) as writes:
        await ground.apply(*steps, hold=FINALIZER)
        await ground.report(status)
    assert not writes


async def test_only_what_differs_is_written(ground: Ground) -> None:
    await ground.apply(Child(child("a", k="v")), Child(child("b")))
    async with written(ground) as writes:
        await ground.apply(Child(child("a", k="w")), Child(child("b")))
    assert writes == {("update", "configmaps"): 1}
    live = ground.live(CONFIGMAP, Key("tailscale", "a"))
    assert live
    assert live["data"] == {"k": "w"}


async def test_our_finalizer_comes_and_goes_among_others_by_the_writes_that_rbac_grants(ground: Ground) -> None:
    async with written(ground) as writes:
        assert await ground.apply(hold=FINALIZER) == ground.parent
        assert ground.parent["metadata"]["finalizers"] == [OTHERS, FINALIZER]
        await ground.report(release=FINALIZER)
    assert ground.parent["metadata"]["finalizers"] == [OTHERS]
    assert writes == {("update", "dnsconfigs"): 2}


async def test_a_parent_that_was_let_go_already_is_fine(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tsoperator")
    async with written(ground) as writes:
        await ground.report(release=FINALIZER)
    assert not writes
    old = await ground.apply(hold=FINALIZER)
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.DNSCONFIG, "", "parent")
    await ground.applier.report(old, Plan(release=FINALIZER), failed)
    assert caplog.messages == []  # whoever let it go has told so


async def test_a_parent_that_others_changed_is_a_conflict(ground: Ground) -> None:
    old = ground.parent
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": [OTHERS, "example.org/more"]}})
    with pytest.raises(Conflict):
        await ground.applier.apply(old, Plan(hold=FINALIZER, steps=[Child(child())]))
    assert ground.live(CONFIGMAP, Key("tailscale", "a")) is None


HELD = {**child("held"), "metadata": {**child("held")["metadata"], "finalizers": [FINALIZER, OTHERS]}}
FINALIZERS = {
    "hold": Plan(hold="example.org/ours"),
    "release": Plan(release=FINALIZER),
    "deletion": Plan(steps=[Deletion(CONFIGMAP, HELD, release=FINALIZER)]),
}


@pytest.mark.parametrize("plan", FINALIZERS.values(), ids=FINALIZERS)
async def test_a_finalizer_that_was_added_since_the_last_look_is_kept(ground: Ground, plan: Plan) -> None:
    """The kind is patched, and a merge patch replaces the whole list."""
    old = ground.put(HELD)
    theirs = [FINALIZER, OTHERS, "example.org/more"]
    ground.sim.store.merge(kinds.CONFIGMAP, *key_of(old), {"metadata": {"finalizers": theirs}})
    steps = [replace(step, obj=old) for step in plan.steps if isinstance(step, Deletion)]
    with pytest.raises(Conflict):
        await ground.applier.report(await ground.applier.apply(old, replace(plan, steps=steps)), plan, failed)
    live = ground.live(CONFIGMAP, key_of(old))
    assert live is not None
    assert live["metadata"]["finalizers"] == theirs


GONE = {
    "patch": Plan(steps=[Patch(CONFIGMAP, Key("tailscale", "a"), {"data": {"k": "v"}})]),
    "replace": Plan(steps=[Child(child(k="v"))]),
    "status": Plan(status={"conditions": [condition("Ready", True, "Ready", "")]}),
}


@pytest.mark.parametrize("plan", GONE.values(), ids=GONE)
async def test_an_object_that_went_before_the_cache_knew_is_a_conflict(ground: Ground, plan: Plan) -> None:
    parent = ground.parent
    ground.put(to_create(child()))
    await ground.caught_up()
    ground.sim.store.delete(kinds.CONFIGMAP, "tailscale", "a")
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.DNSCONFIG, "", "parent")
    with pytest.raises(Conflict, match="not found"):
        await ground.applier.report(await ground.applier.apply(parent, plan), plan, failed)


async def test_a_cache_that_is_behind_is_a_conflict(ground: Ground) -> None:
    await ground.caught_up()
    ground.put(to_create(child()))
    with pytest.raises(Conflict):
        await ground.applier.apply(ground.parent, Plan(steps=[Child(child(k="v"))]))


async def test_a_device_that_cannot_be_deleted_stops_the_plan(ground: Ground) -> None:
    ground.error = Unavailable("the control server is away")
    with pytest.raises(Unavailable, match="away"):
        await ground.apply(delete_device("n1"), Child(child()), hold=FINALIZER)
    assert FINALIZER in ground.parent["metadata"]["finalizers"]
    assert ground.live(CONFIGMAP, Key("tailscale", "a")) is None


async def test_a_write_that_fails_leaves_the_deletes_for_the_next_time(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.faults.fail(Failure(status=500, plural="configmaps", verb="create"))
    steps: list[Step] = [Child(child()), Deletion(CONFIGMAP, old)]
    with pytest.raises(StatusError, match="InternalError"):
        await ground.apply(*steps)
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.apply(*steps)
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_patch_of_the_parent_is_what_the_report_goes_by(ground: Ground) -> None:
    parent = await ground.apply(Patch(DNSCONFIG, Key("", "parent"), {"spec": {"nameserver": {}}}))
    assert parent == ground.parent
    await ground.applier.report(parent, Plan(status={"conditions": []}), failed)
    assert ground.parent["spec"] == {"nameserver": {}}


async def test_a_patch_of_a_child_of_the_parents_kind_is_not_the_parent(ground: Ground) -> None:
    parent, other = ground.put(child("a")), ground.put(child("b"))
    patch = Patch(CONFIGMAP, key_of(other), {"data": {"k": "v"}})
    assert await ground.applier.apply(parent, Plan(steps=[patch])) == parent


async def test_an_object_that_is_gone_already_counts_as_deleted(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.delete(kinds.CONFIGMAP, *key_of(old))
    await ground.apply(Deletion(CONFIGMAP, old), Deletion(CONFIGMAP, old, release=OTHERS))


async def test_a_successor_of_the_same_name_is_not_deleted(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.delete(kinds.CONFIGMAP, *key_of(old))
    ground.put(child("old"))
    with pytest.raises(Conflict):
        await ground.apply(Deletion(CONFIGMAP, old))
    assert ground.live(CONFIGMAP, key_of(old))


async def test_an_object_that_changed_is_deleted_unless_it_must_be_unchanged(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.merge(kinds.CONFIGMAP, *key_of(old), {"data": {"k": "v"}})
    with pytest.raises(Conflict):
        await ground.apply(Deletion(CONFIGMAP, old, unchanged=True))
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.apply(Deletion(CONFIGMAP, old))
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_deletion_takes_our_finalizer_off_first(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours"]
    old = ground.put(obj)
    await ground.apply(Deletion(CONFIGMAP, old, release="example.org/ours", unchanged=True))
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_deletion_leaves_the_finalizers_of_others(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours", OTHERS]
    old = ground.put(obj)
    await ground.apply(Deletion(CONFIGMAP, old, release="example.org/ours"))
    live = ground.live(CONFIGMAP, key_of(old))
    assert live
    assert live["metadata"]["finalizers"] == [OTHERS]
    assert "deletionTimestamp" in live["metadata"]


async def test_an_object_that_is_being_deleted_is_only_let_go(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours"]
    ground.put(obj)
    deleting = ground.sim.store.delete(kinds.CONFIGMAP, "tailscale", "old")
    async with written(ground) as writes:
        await ground.apply(Deletion(CONFIGMAP, deleting, release="example.org/ours"))
    assert writes == {("patch", "configmaps"): 1}
    assert ground.live(CONFIGMAP, key_of(deleting)) is None


async def test_a_deletion_can_take_dependents_first(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP) as changes:
        await ground.apply(Deletion(CONFIGMAP, old, propagation="Foreground"))
        finalizers = [change.object["metadata"].get("finalizers") for change in await changes.batch()]
    assert ["foregroundDeletion"] in finalizers


async def test_notes_become_events_on_the_parent(ground: Ground) -> None:
    await ground.apply(notes=[Note("Warning", "Invalid", "no such zone")])
    event = ground.event()
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Invalid", "no such zone")
    assert event["involvedObject"]["uid"] == ground.parent["metadata"]["uid"]


async def test_a_plan_without_a_status_leaves_it(ground: Ground) -> None:
    await ground.report({"conditions": [], "nameserver": {}})
    async with written(ground) as writes:
        await ground.report(None)
    assert not writes
    assert ground.parent["status"] == {"conditions": [], "nameserver": {}}


async def test_a_condition_gets_the_time_at_which_it_changed(ground: Ground) -> None:
    await ground.report({"conditions": [condition("Ready", True, "Up", "all is well")]})
    assert ground.condition()["lastTransitionTime"] == "2030-01-01T00:00:00Z"
    ground.time = datetime(2031, 1, 1, tzinfo=UTC)
    await ground.report({"conditions": [condition("Ready", False, "Down", "no Pod is ready")]})
    assert ground.condition()["lastTransitionTime"] == "2031-01-01T00:00:00Z"


async def test_a_condition_that_says_the_same_in_other_words_keeps_its_time(ground: Ground) -> None:
    await ground.report({"conditions": [condition("Ready", False, "Pending", "waiting", 1)]})
    ground.time = datetime(2031, 1, 1, tzinfo=UTC)
    await ground.report({"conditions": [condition("Ready", False, "Down", "no Pod is ready", 2)]})
    assert ground.condition() == {
        **condition("Ready", False, "Down", "no Pod is ready", 2),
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


async def test_a_condition_that_is_no_longer_wanted_goes(ground: Ground) -> None:
    await ground.report({"conditions": [condition(name, True, "Up", "") for name in ("Ready", "Old")]})
    await ground.report({"conditions": [condition("Ready", True, "Up", "")]})
    assert [found["type"] for found in ground.parent["status"]["conditions"]] == ["Ready"]


async def test_a_status_on_an_old_version_is_a_conflict(ground: Ground) -> None:
    old = ground.parent
    await ground.report({"conditions": []})
    with pytest.raises(Conflict):
        await ground.applier.report(old, Plan(status={"nameserver": {}}), failed)


async def test_an_empty_status_is_not_written_where_there_is_none(ground: Ground) -> None:
    async with written(ground) as writes:
        await ground.report({})
    assert not writes


async def unwatched(client: KubeClient) -> tuple[Applier, Cache]:
    """Return an applier and its cache, which was filled once and isn't told of any change since."""
    cache = Cache([Source(Selection(kind)) for kind in (CONFIGMAP, DNSCONFIG, SECRET)])
    async with running(cache.follow(client)):
        await cache.synced()
    return Applier(client, cache, EventRecorder(client), no_errand, refusal_of), cache


async def no_errand(_: Errand) -> None:
    """Do nothing."""


async def test_a_child_is_known_as_it_was_written_before_a_watch_tells_it(ground: Ground, client: KubeClient) -> None:
    applier, _ = await unwatched(client)
    await applier.apply(ground.parent, Plan(steps=[Child(child(k="v"))]))
    await applier.apply(ground.parent, Plan(steps=[Child(child(k="w"))]))
    async with written(ground) as writes:
        await applier.apply(ground.parent, Plan(steps=[Child(child(k="w"))]))
    assert not writes


async def test_a_parent_is_known_as_it_was_left_before_a_watch_tells_it(ground: Ground, client: KubeClient) -> None:
    applier, cache = await unwatched(client)
    held = await applier.apply(ground.parent, Plan(hold=FINALIZER))
    assert cache.get(DNSCONFIG, key_of(held)) == held
    await applier.report(held, Plan(status={"conditions": [condition("Ready", True, "Up", "all is well")]}), failed)
    assert cache.get(DNSCONFIG, key_of(held)) == ground.parent


async def test_a_patched_object_is_known_as_it_is_then(ground: Ground, client: KubeClient) -> None:
    applier, cache = await unwatched(client)
    await applier.apply(ground.parent, Plan(steps=[secret_patch("dg==")]))
    assert cache.get(SECRET, Key("tailscale", "state")) == ground.live(SECRET, Key("tailscale", "state"))


class Told(NamedTuple):
    """A refusal: the API server's of a ConfigMap, or the control server's; and words that the parent then says."""

    error: type[Exception]
    words: str
    status: int = 0


REFUSALS = {
    "API server": Told(Denied, "simulated failure: InternalError", 403),
    "control server": Told(Unavailable, "no route to it; delete the Secret"),
}


async def test_the_log_tells_what_is_written_and_that_nothing_is_left(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tsoperator")
    secret = {**child("s"), "kind": "Secret"}
    theirs = {**secret, "metadata": {**secret["metadata"], "labels": {LABEL_MANAGED: MANAGED}}}
    ground.put({**theirs, "metadata": {**theirs["metadata"], "name": "theirs"}})
    await ground.apply(Creation(secret), replace(secret_patch("eA=="), about="its words"), hold=FINALIZER)
    await ground.apply(Child({**theirs, "metadata": {**theirs["metadata"], "name": "theirs"}}))
    await ground.report({"conditions": [condition("Ready", True, "Fine", "")]}, release=FINALIZER)
    await ground.report({"conditions": [condition("Ready", True, "Fine", "")]}, release=FINALIZER)
    assert [line.removeprefix("DNSConfig parent: ") for line in caplog.messages] == [
        "made Secret tailscale/s; changed its words (Secret tailscale/state)",
        "took over Secret tailscale/theirs",
        "Ready is True now",
        "removed what was made for it",
    ]


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_the_log_tells_a_refusal_once_and_no_end_of_the_one_before(
    ground: Ground, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    caplog.set_level("INFO", "tsoperator")
    await ground.apply(notes=[Note("Warning", "LeftOut", "path /a")])
    plural = "configmaps" if verb == "create" else "dnsconfigs"
    ground.sim.faults.fail(Failure(status=403, plural=plural, verb=verb))
    with pytest.raises(Denied) as raised:
        await (ground.act(Child(child())) if verb == "create" else ground.report({"conditions": []}))
    assert ground.applier.journal.has_told(raised.value)
    assert [line.split(": ")[1] for line in caplog.messages] == ["LeftOut", "Failed"]


@pytest.mark.parametrize("plan", [Plan(status={"conditions": []}), Plan(release=FINALIZER)], ids=["status", "release"])
async def test_a_report_that_is_refused_again_and_again_is_told_once(
    ground: Ground, caplog: pytest.LogCaptureFixture, plan: Plan
) -> None:
    old = await ground.apply(hold=FINALIZER)
    ground.sim.faults.fail(Failure(status=403, plural="dnsconfigs", verb="update", times=3))
    for _ in range(3):
        with pytest.raises(Denied):
            await ground.applier.report(await ground.applier.apply(old, plan), plan, failed)
    assert [line.split(": ")[1] for line in caplog.messages] == ["Failed"]


@pytest.mark.parametrize("told", REFUSALS.values(), ids=REFUSALS)
async def test_the_first_refusal_is_told_although_the_finalizer_was_just_added(ground: Ground, told: Told) -> None:
    if told.status:
        ground.sim.faults.fail(Failure(status=told.status, plural="configmaps", verb="create"))
    else:
        ground.error = Unavailable("no route to it")
    with pytest.raises(told.error):
        await ground.act(Child(child()), delete_device("n1"), hold=FINALIZER, way_out="delete the Secret")
    assert FINALIZER in ground.parent["metadata"]["finalizers"]
    found = ground.condition()
    assert (found["status"], found["reason"], found["message"]) == ("False", "Failed", ground.event()["message"])
    assert found["message"].endswith(told.words)


async def test_an_error_that_may_pass_is_not_told(ground: Ground) -> None:
    ground.sim.faults.fail(Failure(status=500, plural="configmaps", verb="create"))
    with pytest.raises(StatusError, match="InternalError"):
        await ground.act(Child(child()))
    assert "status" not in ground.parent
    assert not ground.sim.store.list(kinds.EVENT)


async def test_a_step_that_has_to_be_waited_for_is_no_refusal(ground: Ground) -> None:
    pending = ground.error = Pending(asyncio.get_running_loop().create_future())
    with pytest.raises(Pending) as raised:
        await ground.act(delete_device("n1"), Child(child()))
    assert raised.value is pending
    assert "status" not in ground.parent
    assert ground.live(CONFIGMAP, Key("tailscale", "a")) is None


async def test_a_plan_that_can_be_carried_out_is_not_reported_by_that(ground: Ground) -> None:
    assert await ground.act(Child(child()), hold=FINALIZER, status={"conditions": []}) == ground.parent
    assert ground.live(CONFIGMAP, Key("tailscale", "a"))
    assert "status" not in ground.parent


async def test_a_report_says_when_to_requeue(ground: Ground) -> None:
    assert await ground.report({"conditions": []}, requeue_after=7.0) == Result(7.0)


async def test_an_error_of_the_plan_is_raised_once_it_is_told(ground: Ground) -> None:
    error = Unavailable("away")
    with pytest.raises(Unavailable) as raised:
        await ground.report({"conditions": [condition("Ready", False, "Failed", "away")]}, error=error)
    assert raised.value is error
    assert ground.condition()["message"] == "away"


async def test_a_status_that_is_refused_is_told_by_an_event(ground: Ground) -> None:
    ground.sim.faults.fail(Failure(status=403, plural="dnsconfigs", verb="update"))
    with pytest.raises(Denied, match="InternalError"):
        await ground.report({"conditions": []})
    assert (ground.event()["reason"], "status" in ground.parent) == ("Failed", False)


async def test_a_status_that_fails_for_another_reason_is_not_told(ground: Ground) -> None:
    ground.sim.faults.fail(Failure(status=500, plural="dnsconfigs", verb="update"))
    with pytest.raises(StatusError):
        await ground.report({"conditions": []})
    assert not ground.sim.store.list(kinds.EVENT)
