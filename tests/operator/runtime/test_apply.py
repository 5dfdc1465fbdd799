"""Plans carried out on a simulated API server: what is written, in which order, and what is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.history import Change
from clustersim.sim import ClusterSim
from tsoperator.api.conditions import condition
from tsoperator.api.names import ANNOTATION_DIGEST, FINALIZER
from tsoperator.api.objects import (
    CONFIGMAP,
    DNSCONFIG,
    SECRET,
    Key,
    Object,
    Resource,
    annotations,
    key_of,
    labels,
    resource_of,
)
from tsoperator.desired.plan import Creation, Deletion, Note, Patch, Plan, to_create
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, StatusError
from tsoperator.kube.watch import Selection
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.events import EventRecorder

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


@dataclass
class Ground:
    """An applier, the cache that it looks in, and a parent; what changes is noted in order."""

    sim: ClusterSim
    cache: Cache
    applier: Applier
    devices: list[tuple[int, str]] = field(default_factory=list)
    time: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    device_error: Exception | None = None

    async def delete_device(self, device: str) -> None:
        if self.device_error:
            raise self.device_error
        self.devices.append((self.sim.store.revision, device))

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

    async def apply(self, **plan: Any) -> Object:
        await self.caught_up()
        return await self.applier.apply(self.parent, Plan(**plan))

    async def report(self, status: Object | None = None, *, release: bool = False) -> None:
        await self.applier.report(self.parent, Plan(status=status, release=release))

    def condition(self) -> Object:
        found: Object = self.parent["status"]["conditions"][0]
        return found


@pytest.fixture
async def ground(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Ground]:
    cache = Cache([Source(Selection(kind, "tailscale")) for kind in (CONFIGMAP, SECRET)])
    made: Ground

    async def delete_device(device: str) -> None:
        await made.delete_device(device)

    made = Ground(sim, cache, Applier(client, cache, EventRecorder(client), delete_device, now=lambda: made.time))
    sim.store.create(kinds.DNSCONFIG, {"metadata": {"name": "parent", "finalizers": [OTHERS]}, "spec": {}})
    sim.store.create(kinds.SECRET, {"metadata": {"namespace": "tailscale", "name": "state"}, "data": {"state": "eA=="}})
    async with running(cache.follow(client)):
        await cache.synced()
        yield made


@asynccontextmanager
async def written(ground: Ground) -> AsyncIterator[dict[tuple[str, str], int]]:
    """Yield the writes that are made in the block, known at its end."""
    before = ground.sim.writes.copy()
    writes: dict[tuple[str, str], int] = {}
    yield writes
    writes |= {(verb, plural): count for (_, verb, plural), count in ground.sim.writes_since(before).items()}


def steps(changes: list[Change], ground: Ground) -> list[str]:
    """Return what happened, in order."""
    noted = [(change.revision, f"{change.type} {change.object['metadata']['name']}") for change in changes]
    return [what for _, what in sorted([*noted, *((revision, f"device {name}") for revision, name in ground.devices)])]


async def test_what_is_to_be_created_is_never_replaced(ground: Ground) -> None:
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "tailscale", "name": "new"}, "data": {}}
    await ground.apply(apply=[Creation(made)])
    ground.sim.store.merge(kinds.SECRET, "tailscale", "new", {"data": {"state": "eA=="}})
    with pytest.raises(Conflict):
        await ground.apply(apply=[Creation(made)])
    live = ground.live(SECRET, Key("tailscale", "new"))
    assert live is not None
    assert live["data"] == {"state": "eA=="}


async def test_what_lost_its_labels_is_given_them_back(ground: Ground) -> None:
    """The cache sees of this kind only what is labelled."""
    await ground.apply(apply=[secret("new")])
    ground.sim.store.merge(kinds.SECRET, "tailscale", "new", {"metadata": {"labels": None}})
    with pytest.raises(AlreadyExists):
        await ground.apply(apply=[Creation(secret("new"))])
    live = ground.live(SECRET, Key("tailscale", "new"))
    assert live is not None
    assert labels(live) == {"app": "new"}


@pytest.mark.parametrize("wanted", [Creation, dict], ids=["unseen", "seen"])
async def test_what_is_a_strangers_is_in_the_way_and_left_alone(ground: Ground, wanted: Any) -> None:
    theirs = ground.put({"metadata": {"namespace": "tailscale", "name": "new"}, "kind": "Secret", "apiVersion": "v1"})
    with pytest.raises(Invalid, match="Secret tailscale/new is in the way: it is not the operator's"):
        await ground.apply(apply=[wanted(secret("new"))])
    assert ground.live(SECRET, Key("tailscale", "new")) == theirs


def secret(name: str) -> Object:
    metadata = {"namespace": "tailscale", "name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}


async def test_a_plan_is_carried_out_in_order(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP, kinds.DNSCONFIG, kinds.SECRET) as changes:
        parent = await ground.apply(
            hold=True, devices=["n1", "n2"], apply=[child("a"), secret_patch("dg=="), child("b")],
            delete=[Deletion(CONFIGMAP, old)],
        )  # fmt: skip
        await ground.applier.report(parent, Plan(status={"conditions": []}, release=True))
        assert steps(await changes.batch(), ground) == [
            "MODIFIED parent", "device n1", "device n2", "ADDED a", "MODIFIED state", "ADDED b", "DELETED old",
            "MODIFIED parent", "MODIFIED parent",
        ]  # fmt: skip


async def test_a_plan_that_is_carried_out_writes_nothing_again(ground: Ground) -> None:
    plan: dict[str, Any] = {"hold": True, "apply": [child("a", k="v"), child("b")]}
    status = {"conditions": [condition("Ready", True, "Up", "all is well")]}
    await ground.apply(**plan)
    await ground.report(status)
    async with written(ground) as writes:
        await ground.apply(**plan)
        await ground.report(status)
    assert not writes


async def test_only_what_differs_is_written(ground: Ground) -> None:
    await ground.apply(apply=[child("a", k="v"), child("b")])
    async with written(ground) as writes:
        await ground.apply(apply=[child("a", k="w"), child("b")])
    assert writes == {("update", "configmaps"): 1}
    live = ground.live(CONFIGMAP, Key("tailscale", "a"))
    assert live
    assert live["data"] == {"k": "w"}


async def test_a_child_that_somebody_changed_is_put_right(ground: Ground) -> None:
    await ground.apply(apply=[child(k="v")])
    ground.sim.store.merge(kinds.CONFIGMAP, "tailscale", "a", {"data": {"k": "w"}})
    await ground.apply(apply=[child(k="v")])
    live = ground.live(CONFIGMAP, Key("tailscale", "a"))
    assert live
    assert live["data"] == {"k": "v"}


async def test_a_child_bears_the_digest_of_what_was_wanted(ground: Ground) -> None:
    await ground.apply(apply=[child()])
    live = ground.live(CONFIGMAP, Key("tailscale", "a"))
    assert live
    assert annotations(live)[ANNOTATION_DIGEST]


async def test_our_finalizer_joins_those_of_others(ground: Ground) -> None:
    stored = await ground.apply(hold=True)
    assert stored == ground.parent
    assert ground.parent["metadata"]["finalizers"] == [OTHERS, FINALIZER]


async def test_our_finalizer_goes_alone(ground: Ground) -> None:
    await ground.apply(hold=True)
    await ground.report(release=True)
    assert ground.parent["metadata"]["finalizers"] == [OTHERS]


async def test_a_parent_that_was_let_go_already_is_fine(ground: Ground) -> None:
    async with written(ground) as writes:
        await ground.report(release=True)
    assert not writes
    old = await ground.apply(hold=True)
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.DNSCONFIG, "", "parent")
    await ground.applier.report(old, Plan(release=True))


async def test_a_parent_that_others_changed_is_a_conflict(ground: Ground) -> None:
    old = ground.parent
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": [OTHERS, "example.org/more"]}})
    with pytest.raises(Conflict):
        await ground.applier.apply(old, Plan(hold=True, apply=[child()]))
    assert ground.live(CONFIGMAP, Key("tailscale", "a")) is None


async def test_a_cache_that_is_behind_is_a_conflict(ground: Ground) -> None:
    await ground.caught_up()
    ground.put(to_create(child()))
    with pytest.raises(Conflict):
        await ground.applier.apply(ground.parent, Plan(apply=[child(k="v")]))


async def test_a_device_that_cannot_be_deleted_stops_the_plan(ground: Ground) -> None:
    ground.device_error = KubeError("the control server is away")
    with pytest.raises(KubeError, match="away"):
        await ground.apply(hold=True, devices=["n1"], apply=[child()])
    assert FINALIZER in ground.parent["metadata"]["finalizers"]
    assert ground.live(CONFIGMAP, Key("tailscale", "a")) is None


async def test_a_write_that_fails_leaves_the_deletes_for_the_next_time(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.faults.fail(Failure(status=500, plural="configmaps", verb="create"))
    plan: dict[str, Any] = {"apply": [child()], "delete": [Deletion(CONFIGMAP, old)]}
    with pytest.raises(StatusError, match="InternalError"):
        await ground.apply(**plan)
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.apply(**plan)
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_patch_changes_just_our_fields(ground: Ground) -> None:
    await ground.apply(apply=[secret_patch("dg==")])
    live = ground.live(SECRET, Key("tailscale", "state"))
    assert live
    assert live["data"] == {"state": "eA==", "k": "dg=="}


async def test_a_patch_of_the_parent_is_what_the_report_goes_by(ground: Ground) -> None:
    parent = await ground.apply(apply=[Patch(DNSCONFIG, Key("", "parent"), {"spec": {"nameserver": {}}})])
    assert parent == ground.parent
    await ground.applier.report(parent, Plan(status={"conditions": []}))
    assert ground.parent["spec"] == {"nameserver": {}}


async def test_what_is_gone_already_is_deleted(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.delete(kinds.CONFIGMAP, *key_of(old))
    await ground.apply(delete=[Deletion(CONFIGMAP, old), Deletion(CONFIGMAP, old, release=OTHERS)])


async def test_a_successor_of_the_same_name_is_not_deleted(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.delete(kinds.CONFIGMAP, *key_of(old))
    ground.put(child("old"))
    with pytest.raises(Conflict):
        await ground.apply(delete=[Deletion(CONFIGMAP, old)])
    assert ground.live(CONFIGMAP, key_of(old))


async def test_what_changed_is_deleted_unless_it_must_be_unchanged(ground: Ground) -> None:
    old = ground.put(child("old"))
    ground.sim.store.merge(kinds.CONFIGMAP, *key_of(old), {"data": {"k": "v"}})
    with pytest.raises(Conflict):
        await ground.apply(delete=[Deletion(CONFIGMAP, old, unchanged=True)])
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.apply(delete=[Deletion(CONFIGMAP, old)])
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_deletion_takes_our_finalizer_off_first(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours"]
    old = ground.put(obj)
    await ground.apply(delete=[Deletion(CONFIGMAP, old, release="example.org/ours", unchanged=True)])
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_deletion_leaves_the_finalizers_of_others(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours", OTHERS]
    old = ground.put(obj)
    await ground.apply(delete=[Deletion(CONFIGMAP, old, release="example.org/ours")])
    live = ground.live(CONFIGMAP, key_of(old))
    assert live
    assert live["metadata"]["finalizers"] == [OTHERS]
    assert "deletionTimestamp" in live["metadata"]


async def test_what_is_being_deleted_is_only_let_go(ground: Ground) -> None:
    obj = child("old")
    obj["metadata"]["finalizers"] = ["example.org/ours"]
    ground.put(obj)
    deleting = ground.sim.store.delete(kinds.CONFIGMAP, "tailscale", "old")
    async with written(ground) as writes:
        await ground.apply(delete=[Deletion(CONFIGMAP, deleting, release="example.org/ours")])
    assert writes == {("patch", "configmaps"): 1}
    assert ground.live(CONFIGMAP, key_of(deleting)) is None


async def test_a_deletion_can_take_dependents_first(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP) as changes:
        await ground.apply(delete=[Deletion(CONFIGMAP, old, propagation="Foreground")])
        finalizers = [change.object["metadata"].get("finalizers") for change in await changes.batch()]
    assert ["foregroundDeletion"] in finalizers


async def test_notes_become_events_on_the_parent(ground: Ground) -> None:
    await ground.apply(notes=[Note("Warning", "Invalid", "no such zone")])
    [event] = ground.sim.store.list(kinds.EVENT)
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
        await ground.applier.report(old, Plan(status={"nameserver": {}}))


async def test_an_empty_status_is_not_written_where_there_is_none(ground: Ground) -> None:
    async with written(ground) as writes:
        await ground.report({})
    assert not writes


async def test_the_finalizers_of_our_own_kinds_are_replaced_as_existing_rbac_grants(ground: Ground) -> None:
    async with written(ground) as writes:
        await ground.apply(hold=True)
        await ground.report(release=True)
    assert writes == {("update", "dnsconfigs"): 2}


async def unwatched(client: KubeClient) -> tuple[Applier, Cache]:
    """Return an applier and its cache, which was filled once and isn't told of any change since."""
    cache = Cache([Source(Selection(kind)) for kind in (CONFIGMAP, DNSCONFIG, SECRET)])
    async with running(cache.follow(client)):
        await cache.synced()
    return Applier(client, cache, EventRecorder(client), no_device), cache


async def no_device(_: str) -> None:
    """Delete nothing."""


async def test_a_child_is_known_as_it_was_written_before_a_watch_tells_it(ground: Ground, client: KubeClient) -> None:
    applier, _ = await unwatched(client)
    await applier.apply(ground.parent, Plan(apply=[child(k="v")]))
    await applier.apply(ground.parent, Plan(apply=[child(k="w")]))
    async with written(ground) as writes:
        await applier.apply(ground.parent, Plan(apply=[child(k="w")]))
    assert not writes


async def test_a_parent_is_known_as_it_was_left_before_a_watch_tells_it(ground: Ground, client: KubeClient) -> None:
    applier, cache = await unwatched(client)
    held = await applier.apply(ground.parent, Plan(hold=True))
    assert cache.get(DNSCONFIG, key_of(held)) == held
    await applier.report(held, Plan(status={"conditions": [condition("Ready", True, "Up", "all is well")]}))
    assert cache.get(DNSCONFIG, key_of(held)) == ground.parent


async def test_a_patched_object_is_known_as_it_is_then(ground: Ground, client: KubeClient) -> None:
    applier, cache = await unwatched(client)
    await applier.apply(ground.parent, Plan(apply=[secret_patch("dg==")]))
    assert cache.get(SECRET, Key("tailscale", "state")) == ground.live(SECRET, Key("tailscale", "state"))
