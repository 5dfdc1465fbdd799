"""The findings of a check about Warnings of the operator that no condition repeats."""

from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.check.cluster.events import check_warnings

SERVICE = {"kind": "Service", "metadata": {"namespace": "shop", "name": "db", "uid": "1"}}
FALSE = {"type": "TailscaleProxyReady", "status": "False", "reason": "Invalid", "message": "no"}


def event(message: str, at: str = "2026-01-01T00:00:00Z", uid: str = "1", **fields: Any) -> Object:
    about = {"involvedObject": {"uid": uid}, "reason": "NameHeld", "message": message, "lastTimestamp": at}
    return {**about, "reportingComponent": "tailscale-operator", **fields}


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([event("web is taken")], ["NameHeld: web is taken (Event of 2026-01-01T00:00:00Z)"]),
        ([event("new", "2026-01-02T00:00:00Z"), event("old")], ["NameHeld: new (Event of 2026-01-02T00:00:00Z)"]),
        ([event("a"), event("b", reason="Other")], ["NameHeld: a (Event of 2026-01-01T00:00:00Z)",
                                                    "Other: b (Event of 2026-01-01T00:00:00Z)"]),
        ([event("of another object with that name", uid="2")], []),
        ([event("by another", reportingComponent="kubelet")], []),
    ],
)  # fmt: skip
def test_a_check_reports_the_latest_warning_of_each_reason(events: list[Object], words: list[str]) -> None:
    assert [each.words for each in check_warnings(events, [SERVICE])] == [f"Service shop/db: {each}" for each in words]


@pytest.mark.parametrize(
    ("reason", "is_told"),
    [("Invalid", False), ("ProxyFailed", False), ("InvalidOAuth", False), ("NameHeld", True)],
)
def test_a_check_reports_no_warning_whose_reason_belongs_to_a_condition(reason: str, is_told: bool) -> None:
    service = {**SERVICE, "status": {"conditions": [FALSE]}}
    assert bool([*check_warnings([event("no", reason=reason)], [service])]) is is_told
    assert [*check_warnings([event("no", reason=reason)], [SERVICE])]
