"""Objects that aren't served, as their status says."""

from typing import Any

import pytest
from tsoperator.api import names
from tsoperator.api.objects import Object
from tsoperator.cli.cluster.conditions import OURS, check_conditions, check_ingresses

from tests.operator.cli.cluster.samples import wrong


def service(*conditions: tuple[str, str]) -> Object:
    listed = [
        {"type": kind, "status": status, "reason": "TargetNotFound", "message": "no such name"}
        for kind, status in conditions
    ]
    return {"kind": "Service", "metadata": {"namespace": "a", "name": "db"}, "status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (service(), False),
        (service(("TailscaleProxyReady", "True")), False),
        (service(("Progressing", "False")), False),
        (service(("TailscaleProxyReady", "False")), True),
        (service(("TailscaleEgressSvcValid", "True"), ("TailscaleEgressSvcReady", "False")), True),
        (service(("TailscaleEgressSvcReady", "Unknown")), False),
    ],
)
def test_an_object_that_is_not_served_is_told(found: Object, told: bool) -> None:
    assert bool(wrong([*check_conditions([found])])) is told


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_finding_has_the_operators_own_words_once(status: str) -> None:
    twice = service(("TailscaleEgressSvcValid", status), ("TailscaleEgressSvcReady", "False"))
    (found,) = check_conditions([twice, service(("TailscaleProxyReady", "True"))])
    assert found.words == f"Service a/db: TailscaleEgressSvcValid is {status}: no such name"
    assert found.cure == "docs/conditions.md says more about the reason TargetNotFound"


def test_every_condition_but_that_a_group_is_available_counts() -> None:
    ours = {value for name, value in vars(names).items() if name.startswith("CONDITION_")}
    assert ours - OURS == {names.CONDITION_PROXYGROUP_AVAILABLE}


def test_objects_with_conditions_are_counted() -> None:
    (found,) = check_conditions([service(), service(("TailscaleProxyReady", "True"))])
    assert found.words == "objects with a condition of the operator that are served: 1 of 1"


def ingress(name: str, class_: str = "tailscale", **entry: Any) -> Object:
    status = {"loadBalancer": {"ingress": [entry]}} if entry else {}
    return {"metadata": {"namespace": "a", "name": name}, "spec": {"ingressClassName": class_}, "status": status}


SERVED = ingress("web", hostname="web.tail1234.ts.net")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], []),
        ([ingress("other", "nginx")], []),
        ([SERVED, ingress("other", "nginx")], ["Ingresses of class tailscale that have a name: 1 of 1"]),
        ([SERVED, ingress("db")], ["Ingress a/db has no name in its status, so nobody reaches it"]),
        ([ingress("db", ip="192.0.2.4")], ["Ingress a/db has no name in its status, so nobody reaches it"]),
    ],
)
def test_an_ingress_of_the_operator_has_a_name(found: list[Object], words: list[str]) -> None:
    findings = [*check_ingresses(found, "tailscale")]
    assert [each.words for each in findings] == words
    assert ["describe ingress db" in each.cure for each in findings] == [each.verdict == "FAILED" for each in findings]
