import pytest
from tsoperator.api.conditions import condition
from tsoperator.proxy.findings import DeviceFinding, Effect, with_findings
from tsoperator.runtime.plan import Note, Plan

from tests.support.objects import status_of

READY = "TailscaleProxyReady"
REASONS = {Effect.PENDING: "ProxyPending", Effect.FAILED: "ProxyFailed"}
NEWS = DeviceFinding(Effect.NEWS, "TagsChanged", "other tags")
WARNING = DeviceFinding(Effect.WARNING, "NameNotTakenOver", "not looked for")
NOTICE = DeviceFinding(Effect.NOTICE, "NameHeld", "held by another", requeue_after=600)
PENDING = DeviceFinding(Effect.PENDING, "DeviceApprovalNeeded", "approve it", requeue_after=30)
GONE = DeviceFinding(Effect.FAILED, "TargetNotFound", "no such device", is_reason=True)
FAILED = DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)


CREATED = ("True", "ProxyCreated", "ProxyCreated")
OTHER = ("False", "Other", "no hostname")


@pytest.mark.parametrize(
    ("before", "findings", "shown"),
    [
        (CREATED, [], CREATED),
        (CREATED, [NEWS, WARNING], CREATED),
        (CREATED, [NOTICE], ("True", "ProxyCreated", "ProxyCreated; held by another")),
        (CREATED, [PENDING], ("False", "ProxyPending", "approve it")),
        (CREATED, [NOTICE, FAILED], ("False", "ProxyFailed", "held by another; not permitted")),
        (CREATED, [PENDING, GONE], ("False", "TargetNotFound", "approve it; no such device")),
        (CREATED, [GONE, FAILED], ("False", "TargetNotFound", "no such device; not permitted")),
        (OTHER, [GONE], ("False", "TargetNotFound", "no such device; no hostname")),
        (CREATED, [FAILED, PENDING], ("False", "ProxyFailed", "not permitted; approve it")),
        (OTHER, [PENDING], ("False", "Other", "approve it; no hostname")),
        (OTHER, [FAILED], ("False", "ProxyFailed", "not permitted; no hostname")),
    ],
)
def test_the_condition_shows_the_lasting_findings_with_the_reason_of_the_worst_finding(
    before: tuple[str, str, str], findings: list[DeviceFinding], shown: tuple[str, str, str]
) -> None:
    status = {"conditions": [condition(READY, *before)], "loadBalancer": {}}
    plan = with_findings(Plan(status=status), findings, condition=READY, reasons=REASONS)
    [found] = status_of(plan)["conditions"]
    assert (found["status"], found["reason"], found["message"]) == shown
    assert status_of(plan)["loadBalancer"] == {}


def test_each_finding_causes_an_event_after_the_events_of_the_plan() -> None:
    plan = with_findings(Plan(notes=[Note("Warning", "First", "first")]), [NEWS, NOTICE, FAILED])
    assert plan.notes == [
        Note("Warning", "First", "first"),
        Note("Normal", "TagsChanged", "other tags"),
        Note("Warning", "NameHeld", "held by another", once=True),
        Note("Warning", "TagsRefused", "not permitted"),
    ]


def test_a_parent_is_reconciled_again_at_the_earliest_time_of_its_findings() -> None:
    assert [with_findings(Plan(requeue_after=5.0), [each]).requeue_after for each in (NEWS, FAILED)] == [5.0, 5.0]
    assert [with_findings(Plan(), each).requeue_after for each in ([NEWS], [NOTICE, PENDING])] == [None, 30]


def test_a_parent_without_a_condition_for_findings_gets_only_events() -> None:
    plan = with_findings(Plan(status={"loadBalancer": {}}), [FAILED], condition=READY, reasons=REASONS)
    assert (plan.status, len(plan.notes)) == ({"loadBalancer": {}}, 1)
