"""Findings about objects whose status says that they aren't served."""

from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.check.cluster.conditions import check_conditions, check_ingresses
from tsoperator.check.findings import OBJECTS

from tests.operator.check.cluster.samples import wrong

TOLD = {"reason": "TargetNotFound", "message": "no such name"}


def service(*conditions: tuple[str, str]) -> Object:
    listed = [{"type": kind, "status": status, **TOLD} for kind, status in conditions]
    return {"kind": "Service", "metadata": {"namespace": "a", "name": "db"}, "status": {"conditions": listed}}


WELL = [
    service(),
    service(("TailscaleProxyReady", "True")),
    service(("Progressing", "False")),
    service(("TailscaleEgressSvcReady", "Unknown")),
]


def test_a_check_reports_an_object_that_is_not_served() -> None:
    (found,) = check_conditions(WELL)
    assert found.words == "objects with a condition of the operator that are served: 2 of 2"
    late = service(("TailscaleEgressSvcValid", "True"), ("TailscaleEgressSvcReady", "False"))
    assert len(wrong([*check_conditions([*WELL, service(("TailscaleProxyReady", "False")), late])])) == 2


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_two_conditions_with_the_same_message_cause_a_single_finding_with_that_message(status: str) -> None:
    twice = service(("TailscaleEgressSvcValid", status), ("TailscaleEgressSvcReady", "False"))
    (found,) = check_conditions([twice, service(("TailscaleProxyReady", "True"))])
    assert found.words == f"Service a/db: TailscaleEgressSvcValid is {status}: no such name"
    assert found.cure == ""


@pytest.mark.parametrize(("reason", "verdict"), [("ProxyPending", "waiting"), ("ProxyFailed", "FAILED")])
def test_a_false_condition_is_a_fault_unless_its_reason_usually_passes_without_help(reason: str, verdict: str) -> None:
    told = {"type": "TailscaleProxyReady", "status": "False", "reason": reason, "message": "words"}
    (found,) = check_conditions([{**service(), "status": {"conditions": [told]}}])
    assert found.verdict == verdict


def ingress(name: str, class_: str = "tailscale", **entry: Any) -> Object:
    status = {"loadBalancer": {"ingress": [entry]}} if entry else {}
    return {"metadata": {"namespace": "a", "name": name}, "spec": {"ingressClassName": class_}, "status": status}


SERVED = ingress("web", hostname="web.tail1234.ts.net")
UNNAMED = "Ingress a/db: it has no name in its status, so nobody reaches it"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], []),
        ([ingress("other", "nginx")], []),
        ([SERVED, ingress("other", "nginx")], ["Ingresses of class tailscale that have a name: 1 of 1"]),
        ([SERVED, ingress("db")], [UNNAMED]),
        ([ingress("db", ip="192.0.2.4")], [UNNAMED]),
    ],
)
def test_a_check_reports_an_ingress_of_the_operator_that_has_no_name_in_its_status(
    found: list[Object], words: list[str]
) -> None:
    findings = [*check_ingresses(found, "tailscale")]
    assert [(each.check, each.words) for each in findings] == [(OBJECTS, each) for each in words]
    assert ["describe ingress db" in each.cure for each in findings] == [each.verdict == "FAILED" for each in findings]
