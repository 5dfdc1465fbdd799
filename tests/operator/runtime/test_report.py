"""How the applier reports a plan: in the status of the parent, by Events, and in the log."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import CONFIGMAP
from tsoperator.desired.plan import Child, Creation, Note, Plan
from tsoperator.kube.errors import Denied, StatusError
from tsoperator.runtime.result import Pending, Result
from tsoperator.tsclient.errors import Unavailable

from tests.operator.runtime.ground import A, Ground, child, delete_device, failed, secret_patch, written


async def test_a_plan_without_a_status_leaves_it_and_an_empty_one_is_not_written_where_there_is_none(
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


async def test_a_condition_has_the_time_at_which_it_changed_until_it_is_no_longer_wanted(ground: Ground) -> None:
    for year, since, is_true in ((2030, 2030, False), (2031, 2030, False), (2032, 2032, True)):
        ground.time = datetime(year, 1, 1, tzinfo=UTC)
        told = condition("Ready", is_true, f"Reason{year}", "in words", year)
        await ground.report({"conditions": [told, condition("Old", True, "Up", "")]})
        assert ground.condition() == {**told, "lastTransitionTime": f"{since}-01-01T00:00:00Z"}
    await ground.report({"conditions": [told]})
    assert [found["type"] for found in ground.parent["status"]["conditions"]] == ["Ready"]


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


async def test_a_report_that_is_refused_anew_after_a_good_one_is_told_anew(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "tsoperator")
    for reason in ("One", "Other"):
        status = {"conditions": [condition("Ready", True, reason, "")]}
        ground.sim.faults.fail(Failure(status=403, plural="dnsconfigs", verb="update"))
        with pytest.raises(Denied):
            await ground.report(status)
        await ground.report(status)
    assert [line.split(": ")[1] for line in caplog.messages] == ["Failed", "Failed"]


@pytest.mark.parametrize(
    ("error", "words"),
    [(Denied, "simulated failure: InternalError"), (Unavailable, "no route to it; delete the Secret")],
    ids=["API server", "control server"],
)
async def test_the_first_refusal_is_told_although_the_finalizer_was_just_added(
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
    assert ground.live(CONFIGMAP, A) is None


async def test_a_plan_that_can_be_carried_out_is_reported_after_that(ground: Ground) -> None:
    assert await ground.act(Child(child()), hold=FINALIZER, status={"conditions": []}) == ground.parent
    assert ground.live(CONFIGMAP, A)
    assert "status" not in ground.parent
    assert await ground.report({"conditions": []}, requeue_after=7.0) == Result(7.0)


async def test_an_error_of_the_plan_is_raised_once_it_is_told(ground: Ground) -> None:
    error = Unavailable("away")
    with pytest.raises(Unavailable) as raised:
        await ground.report({"conditions": [condition("Ready", False, "Failed", "away")]}, error=error)
    assert raised.value is error
    assert ground.condition()["message"] == "away"


@pytest.mark.parametrize(("code", "told"), [(403, ["Failed"]), (500, [])])
async def test_a_status_that_is_refused_is_told_by_an_event(ground: Ground, code: int, told: list[str]) -> None:
    ground.sim.faults.fail(Failure(status=code, plural="dnsconfigs", verb="update"))
    with pytest.raises(StatusError, match="InternalError"):
        await ground.report({"conditions": []})
    assert [event["reason"] for event in ground.sim.store.list(kinds.EVENT)] == told
    assert "status" not in ground.parent
