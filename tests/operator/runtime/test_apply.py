"""Plans on a simulated API server: the order of the writes, and the reports in the status, in Events and in the log."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.history import Change
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, SECRET, Key, Object, key_of, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, Rejected, StatusError
from tsoperator.kube.watch import Selection
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.diff import to_create
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.plan import Child, Creation, Deletion, Note, Patch, Plan, Step
from tsoperator.runtime.result import Pending, Result
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tsclient.errors import Unavailable

from tests.operator.runtime.ground import OTHERS, A, Ground, child, delete_device, failed, secret_patch, written
from tests.support.cluster import running


def happened(changes: list[Change], ground: Ground) -> list[str]:
    noted = [(change.revision, f"{change.type} {change.object['metadata']['name']}") for change in changes]
    return [what for _, what in sorted([*noted, *((revision, f"device {name}") for revision, name in ground.devices)])]


async def test_a_creation_restores_the_lost_labels_of_an_existing_object_and_nothing_else(ground: Ground) -> None:
    """Create a Secret that exists, but has lost its labels. The cache of a real operator has no Secret without them."""
    await ground.act(Child(secret("new")))
    change = {"data": {"state": "eA=="}, "metadata": {"labels": None}}
    ground.sim.store.merge(kinds.SECRET, "tailscale", "new", change)
    with pytest.raises(AlreadyExists):
        await ground.act(Creation(secret("new")))
    live = ground.there(SECRET, Key("tailscale", "new"))
    assert (labels(live), live["data"]) == ({"app": "new"}, {"state": "eA=="})


@pytest.mark.parametrize("wanted", [Creation, Child], ids=["unseen", "seen"])
async def test_an_object_of_somebody_else_stays_as_it_is_if_a_child_needs_its_name(ground: Ground, wanted: Any) -> None:
    theirs = ground.put({"metadata": {"namespace": "tailscale", "name": "new"}, "kind": "Secret", "apiVersion": "v1"})
    with pytest.raises(Rejected, match="Secret tailscale/new is in the way: it is not the operator's"):
        await ground.act(wanted(secret("new")))
    assert ground.live(SECRET, Key("tailscale", "new")) == theirs


def secret(name: str) -> Object:
    metadata = {"namespace": "tailscale", "name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}


async def test_the_steps_of_a_plan_are_carried_out_in_order(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP, kinds.DNSCONFIG, kinds.SECRET) as changes:
        parent = await ground.act(
            delete_device("n1"), delete_device("n2"), Child(child("a")), secret_patch("dg=="), Child(child("b")),
            Deletion(CONFIGMAP, old), hold=FINALIZER,
        )  # fmt: skip
        await ground.applier.report(parent, Plan(status={"conditions": []}, release=FINALIZER), failed)
        assert happened(await changes.batch(), ground) == [
            "MODIFIED parent", "device n1", "device n2", "ADDED a", "MODIFIED state", "ADDED b", "DELETED old",
            "MODIFIED parent", "MODIFIED parent",
        ]  # fmt: skip


async def test_only_the_differences_between_the_plan_and_the_live_objects_are_written(ground: Ground) -> None:
    steps = [Child(child("a", k="v")), Child(child("b"))]
    status = {"conditions": [condition("Ready", True, "Up", "all is well")]}
    for _ in range(2):
        async with written(ground) as writes:
            await ground.act(*steps, hold=FINALIZER)
            await ground.report(status)
    assert not writes
    async with written(ground) as writes:
        await ground.act(Child(child("a", k="w")), steps[1])
    assert writes == {("update", "configmaps"): 1}
    assert ground.there(CONFIGMAP, A)["data"] == {"k": "w"}


async def test_our_finalizer_is_put_on_a_dnsconfig_and_taken_off_by_updates_and_not_by_patches(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    async with written(ground) as writes:
        old = await ground.act(hold=FINALIZER)
        assert old == ground.parent
        assert ground.parent["metadata"]["finalizers"] == [OTHERS, FINALIZER]
        for _ in range(2):
            await ground.report(release=FINALIZER)
            assert ground.parent["metadata"]["finalizers"] == [OTHERS]
    assert writes == {("update", "dnsconfigs"): 2}
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.DNSCONFIG, "", "parent")
    caplog.set_level("INFO", "tsoperator")
    await ground.applier.report(old, Plan(release=FINALIZER), failed)
    assert caplog.messages == []  # the log has no line: the reconciler that released the object reports its end


async def test_a_write_with_an_outdated_cache_is_a_conflict(ground: Ground) -> None:
    await ground.caught_up()
    old = ground.parent
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": [OTHERS, "example.org/more"]}})
    with pytest.raises(Conflict):
        await ground.applier.act(old, Plan(hold=FINALIZER, steps=[Child(child())]), failed)
    assert ground.live(CONFIGMAP, A) is None
    with pytest.raises(Conflict):
        await ground.applier.report(old, Plan(status={"nameserver": {}}), failed)
    ground.put(to_create(child()))
    with pytest.raises(Conflict):
        await ground.applier.act(ground.parent, Plan(steps=[Child(child(k="v"))]), failed)


HELD = child("held", FINALIZER, OTHERS)
FINALIZERS = {
    "hold": Plan(hold="example.org/ours"),
    "release": Plan(release=FINALIZER),
    "deletion": Plan(steps=[Deletion(CONFIGMAP, HELD, release=FINALIZER)]),
}


@pytest.mark.parametrize("plan", FINALIZERS.values(), ids=FINALIZERS)
async def test_a_finalizer_that_somebody_adds_during_a_reconcile_is_not_lost(ground: Ground, plan: Plan) -> None:
    """Add a finalizer after the operator has read the object. The operator's patch would replace the whole list."""
    old = ground.put(HELD)
    theirs = [FINALIZER, OTHERS, "example.org/more"]
    ground.sim.store.merge(kinds.CONFIGMAP, *key_of(old), {"metadata": {"finalizers": theirs}})
    steps = [replace(step, obj=old) for step in plan.steps if isinstance(step, Deletion)]
    with pytest.raises(Conflict):
        await ground.applier.report(await ground.applier.act(old, replace(plan, steps=steps), failed), plan, failed)
    live = ground.there(CONFIGMAP, key_of(old))
    assert live["metadata"]["finalizers"] == theirs


GONE = {
    "patch": Plan(steps=[Patch(CONFIGMAP, A, {"data": {"k": "v"}})]),
    "replace": Plan(steps=[Child(child(k="v"))]),
    "status": Plan(status={"conditions": [condition("Ready", True, "Ready", "")]}),
}


@pytest.mark.parametrize("plan", GONE.values(), ids=GONE)
async def test_a_write_of_an_object_that_is_gone_but_still_in_the_cache_is_a_conflict(
    ground: Ground, plan: Plan
) -> None:
    parent = ground.parent
    ground.put(to_create(child()))
    await ground.caught_up()
    ground.sim.store.delete(kinds.CONFIGMAP, "tailscale", "a")
    ground.sim.store.merge(kinds.DNSCONFIG, "", "parent", {"metadata": {"finalizers": None}})
    ground.sim.store.delete(kinds.DNSCONFIG, "", "parent")
    with pytest.raises(Conflict, match="not found"):
        await ground.applier.report(await ground.applier.act(parent, plan, failed), plan, failed)


async def test_a_deletion_in_a_plan_is_not_carried_out_if_an_earlier_write_has_failed(
    ground: Ground,
) -> None:
    old = ground.put(child("old"))
    ground.sim.faults.fail(Failure(status=500, plural="configmaps", verb="create"))
    steps: list[Step] = [Child(child()), Deletion(CONFIGMAP, old)]
    with pytest.raises(StatusError, match="InternalError"):
        await ground.act(*steps)
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.act(*steps)
    assert ground.live(CONFIGMAP, key_of(old)) is None


async def test_a_report_is_about_the_parent_whether_a_step_patches_the_parent_or_another_object(
    ground: Ground,
) -> None:
    parent = await ground.act(Patch(DNSCONFIG, Key("", "parent"), {"spec": {"nameserver": {}}}))
    assert parent == ground.parent
    await ground.applier.report(parent, Plan(status={"conditions": []}), failed)
    assert ground.parent["spec"] == {"nameserver": {}}
    parent, other = ground.put(child("a")), ground.put(child("b"))
    patch = Patch(CONFIGMAP, key_of(other), {"data": {"k": "v"}})
    assert await ground.applier.act(parent, Plan(steps=[patch]), failed) == parent


async def test_the_deletion_of_an_object_that_is_gone_does_not_delete_a_new_object_with_its_name(
    ground: Ground,
) -> None:
    old = ground.put(child("old"))
    ground.sim.store.delete(kinds.CONFIGMAP, *key_of(old))
    await ground.act(Deletion(CONFIGMAP, old), Deletion(CONFIGMAP, old, release=OTHERS))
    ground.put(child("old"))
    with pytest.raises(Conflict):
        await ground.act(Deletion(CONFIGMAP, old))
    assert ground.live(CONFIGMAP, key_of(old))


async def test_a_changed_object_is_deleted_unless_the_deletion_asks_for_an_unchanged_one(
    ground: Ground,
) -> None:
    old = ground.put(child("old"))
    ground.sim.store.merge(kinds.CONFIGMAP, *key_of(old), {"data": {"k": "v"}})
    with pytest.raises(Conflict):
        await ground.act(Deletion(CONFIGMAP, old, unchanged=True))
    assert ground.live(CONFIGMAP, key_of(old))
    await ground.act(Deletion(CONFIGMAP, old))
    assert ground.live(CONFIGMAP, key_of(old)) is None


@pytest.mark.parametrize("others", [[], [OTHERS]], ids=["ours", "others"])
async def test_a_deletion_first_removes_our_finalizer_and_no_other(ground: Ground, others: list[str]) -> None:
    old = ground.put(child("old", "example.org/ours", *others))
    await ground.act(Deletion(CONFIGMAP, old, release="example.org/ours", unchanged=True))
    live = ground.live(CONFIGMAP, key_of(old))
    held = [("deletionTimestamp" in live["metadata"], live["metadata"]["finalizers"])] if live else []
    assert held == ([(True, others)] if others else [])


async def test_the_deletion_of_an_object_that_is_already_being_deleted_only_removes_our_finalizer(
    ground: Ground,
) -> None:
    ground.put(child("old", "example.org/ours"))
    deleting = ground.sim.store.delete(kinds.CONFIGMAP, "tailscale", "old")
    async with written(ground) as writes:
        await ground.act(Deletion(CONFIGMAP, deleting, release="example.org/ours"))
    assert writes == {("patch", "configmaps"): 1}
    assert ground.live(CONFIGMAP, key_of(deleting)) is None


async def test_a_deletion_can_delete_the_dependents_of_the_object_first(ground: Ground) -> None:
    old = ground.put(child("old"))
    with ground.sim.store.subscribe(kinds.CONFIGMAP) as changes:
        await ground.act(Deletion(CONFIGMAP, old, propagation="Foreground"))
        finalizers = [change.object["metadata"].get("finalizers") for change in await changes.batch()]
    assert ["foregroundDeletion"] in finalizers


async def test_a_written_object_is_in_the_cache_before_a_watch_delivers_it(ground: Ground, client: KubeClient) -> None:
    cache = Cache([Source(Selection(kind)) for kind in (CONFIGMAP, DNSCONFIG, SECRET)])
    async with running(cache.follow(client)):
        await cache.synced()
    applier = Applier(client, cache, EventRecorder(client), ground.run_errand, refusal_of)
    held = await applier.act(
        ground.parent, Plan(steps=[Child(child(k="v")), secret_patch("dg==")], hold=FINALIZER), failed
    )
    assert cache.get(DNSCONFIG, key_of(held)) == held
    assert cache.get(SECRET, Key("tailscale", "state")) == ground.live(SECRET, Key("tailscale", "state"))
    await applier.act(held, Plan(steps=[Child(child(k="w"))]), failed)
    assert cache.get(CONFIGMAP, A) == ground.live(CONFIGMAP, A)
    await applier.report(held, Plan(status={"conditions": [condition("Ready", True, "Up", "all is well")]}), failed)
    assert cache.get(DNSCONFIG, key_of(held)) == ground.parent


async def test_no_status_is_written_if_the_plan_has_no_status_or_its_status_and_that_of_the_object_are_empty(
    ground: Ground,
) -> None:
    async with written(ground) as writes:
        await ground.report({})
    assert not writes
    await ground.report({"conditions": [], "nameserver": {}})
    async with written(ground) as writes:
        await ground.report(None)
    assert not writes
    assert ground.parent["status"] == {"conditions": [], "nameserver": {}}


async def test_the_time_of_a_condition_changes_with_its_status_and_a_condition_that_a_plan_leaves_out_is_removed(
    ground: Ground,
) -> None:
    for year, since, is_true in ((2030, 2030, False), (2031, 2030, False), (2032, 2032, True)):
        ground.time = datetime(year, 1, 1, tzinfo=UTC)
        told = condition("Ready", is_true, f"Reason{year}", "in words", year)
        await ground.report({"conditions": [told, condition("Old", True, "Up", "")]})
        assert ground.condition() == {**told, "lastTransitionTime": f"{since}-01-01T00:00:00Z"}
    await ground.report({"conditions": [told]})
    assert [found["type"] for found in ground.parent["status"]["conditions"]] == ["Ready"]


async def test_the_log_has_a_line_about_the_writes_the_condition_and_the_release_of_an_object(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tsoperator")
    theirs = secret("theirs")
    theirs["metadata"]["labels"] = {LABEL_MANAGED: MANAGED}
    ground.put(theirs)
    await ground.act(Creation(secret("s")), replace(secret_patch("eA=="), about="its words"), hold=FINALIZER)
    await ground.act(Child(theirs))
    for _ in range(2):
        await ground.report({"conditions": [condition("Ready", True, "Fine", "")]}, release=FINALIZER)
    assert [line.removeprefix("DNSConfig parent: ") for line in caplog.messages] == [
        "made Secret tailscale/s; changed its words (Secret tailscale/state)",
        "took over Secret tailscale/theirs",
        "Ready is True now",
        "removed what was made for it",
    ]


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_refused_write_causes_one_log_line_and_no_line_that_says_that_an_earlier_warning_has_ended(
    ground: Ground, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    caplog.set_level("INFO", "tsoperator")
    await ground.act(notes=[Note("Warning", "LeftOut", "path /a")])
    plural = "configmaps" if verb == "create" else "dnsconfigs"
    ground.sim.faults.fail(Failure(status=403, plural=plural, verb=verb))
    with pytest.raises(Denied) as raised:
        await (ground.act(Child(child())) if verb == "create" else ground.report({"conditions": []}))
    assert ground.applier.journal.has_told(raised.value)
    assert [line.split(": ")[1] for line in caplog.messages] == ["LeftOut", "Failed"]


@pytest.mark.parametrize(
    "plans",
    [
        [Plan(status={"conditions": [condition("Ready", True, reason, "")]}) for reason in ("One", "Other")],
        [Plan(release=FINALIZER)],
    ],
    ids=["status", "release"],
)
async def test_a_report_that_is_refused_again_and_again_is_logged_once_until_a_report_succeeds(
    ground: Ground, caplog: pytest.LogCaptureFixture, plans: list[Plan]
) -> None:
    caplog.set_level("WARNING", "tsoperator")
    await ground.act(hold=FINALIZER)
    for plan in plans:
        ground.sim.faults.fail(Failure(status=403, plural="dnsconfigs", verb="update", times=3))
        for _ in range(3):
            with pytest.raises(Denied):
                await ground.applier.report(await ground.applier.act(ground.parent, plan, failed), plan, failed)
        await ground.applier.report(ground.parent, plan, failed)
    assert [line.split(": ")[1] for line in caplog.messages] == ["Failed"] * len(plans)


@pytest.mark.parametrize(
    ("error", "words"),
    [(Denied, "simulated failure: InternalError"), (Unavailable, "no route to it; delete the Secret")],
    ids=["API server", "control server"],
)
async def test_a_refusal_is_reported_even_if_the_same_plan_has_just_added_our_finalizer(
    ground: Ground, error: type[Exception], words: str
) -> None:
    if error is Denied:
        ground.sim.faults.fail(Failure(status=403, plural="configmaps", verb="create"))
    else:
        ground.error = Unavailable("no route to it")
    with pytest.raises(error):
        await ground.act(delete_device("n1"), Child(child()), hold=FINALIZER, way_out="delete the Secret")
    assert FINALIZER in ground.parent["metadata"]["finalizers"]
    assert ground.live(CONFIGMAP, A) is None
    found = ground.condition()
    assert (found["status"], found["reason"], found["message"]) == ("False", "Failed", ground.event()["message"])
    assert found["message"].endswith(words)


async def test_a_temporary_error_is_not_reported_to_the_user(ground: Ground) -> None:
    ground.sim.faults.fail(Failure(status=500, plural="configmaps", verb="create"))
    with pytest.raises(StatusError, match="InternalError"):
        await ground.act(Child(child()))
    assert "status" not in ground.parent
    assert not ground.sim.store.list(kinds.EVENT)


async def test_a_step_that_waits_for_an_answer_is_not_reported_as_a_refusal(ground: Ground) -> None:
    pending = ground.error = Pending(asyncio.get_running_loop().create_future())
    with pytest.raises(Pending) as raised:
        await ground.act(delete_device("n1"), Child(child()))
    assert raised.value.until is pending.until
    assert "status" not in ground.parent
    assert ground.live(CONFIGMAP, A) is None


async def test_the_status_of_a_plan_is_written_while_the_deletion_of_a_device_takes_time(ground: Ground) -> None:
    pending = ground.error = Pending(asyncio.get_running_loop().create_future())
    status = {"conditions": [condition("Ready", False, "Leaving", "it leaves")]}
    steps = Child(child()), delete_device("n1"), Child(child("b"))
    with pytest.raises(Pending) as raised:
        await ground.act(*steps, hold=FINALIZER, status=status, release=FINALIZER, requeue_after=5.0)
    assert (raised.value.until, raised.value.requeue_after) == (pending.until, 5.0)
    assert (ground.condition()["reason"], FINALIZER in ground.parent["metadata"]["finalizers"]) == ("Leaving", True)
    assert ground.live(CONFIGMAP, A)
    assert ground.live(CONFIGMAP, Key("tailscale", "b")) is None


@pytest.mark.parametrize("is_ready", [True, False])
async def test_the_status_changes_once_if_the_deletion_of_a_device_alternately_fails_and_waits(
    ground: Ground, is_ready: bool
) -> None:
    status, versions = {"conditions": [condition("Ready", is_ready, "Waiting", "")]}, []
    for error in (Unavailable("down"), Pending(asyncio.get_running_loop().create_future())) * 2:
        ground.error = error
        with pytest.raises(type(error)):
            await ground.act(delete_device("n1"), status=status)
        versions.append(ground.parent["metadata"]["resourceVersion"])
    assert (ground.condition()["reason"], len({*versions})) == ("Failed", 1)


async def test_the_report_of_a_plan_is_written_after_its_steps_are_carried_out(ground: Ground) -> None:
    assert await ground.act(Child(child()), hold=FINALIZER, status={"conditions": []}) == ground.parent
    assert ground.live(CONFIGMAP, A)
    assert "status" not in ground.parent
    assert await ground.report({"conditions": []}, requeue_after=7.0) == Result(7.0)


async def test_the_error_of_a_plan_is_raised_after_the_report(ground: Ground) -> None:
    error = Unavailable("away")
    with pytest.raises(Unavailable) as raised:
        await ground.report({"conditions": [condition("Ready", False, "Failed", "away")]}, error=error)
    assert raised.value is error
    assert ground.condition()["message"] == "away"


@pytest.mark.parametrize(("code", "told"), [(403, ["Failed"]), (500, [])])
async def test_a_refused_status_is_reported_by_an_event(ground: Ground, code: int, told: list[str]) -> None:
    ground.sim.faults.fail(Failure(status=code, plural="dnsconfigs", verb="update"))
    with pytest.raises(StatusError, match="InternalError"):
        await ground.report({"conditions": []})
    assert [event["reason"] for event in ground.sim.store.list(kinds.EVENT)] == told
    assert "status" not in ground.parent
