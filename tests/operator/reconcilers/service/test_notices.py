"""What in a Service has no effect, and how its user is told."""

from typing import NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import Object
from tsoperator.desired.plan import Note, Plan
from tsoperator.reconcilers.service.notices import notices, told

from tests.support.objects import FQDN, deleting, egress_service, settings

SETTINGS = settings()
FQDN_KEY = "tailscale.com/tailnet-fqdn"
IP_KEY = "tailscale.com/tailnet-ip"
GROUP_KEY = "tailscale.com/proxy-group"
HOSTNAME = "annotation tailscale.com/hostname"
OLD_IP_KEY = "tailscale.com/ts-tailnet-target-ip"
EXPOSE = {"tailscale.com/expose": "true"}
GROUP = {GROUP_KEY: "egress"}
CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}


class Case(NamedTuple):
    annotations: dict[str, str]
    words: list[str]
    """In each message, in order."""
    spec: Object | None = None


def balanced(class_: str) -> Object:
    """The spec of a load balancer of this class."""
    return {**CLUSTER_IP, "type": "LoadBalancer", "loadBalancerClass": class_}


KNOWN = ("hostname", "tags", "tailnet-fqdn", "tailnet-ip", "proxy-class")
BOTH = {FQDN_KEY: FQDN, OLD_IP_KEY: "100.64.0.9"}
CASES = {
    "nothing": Case({}, []),
    "all that is read": Case({f"tailscale.com/{name}": "x" for name in KNOWN}, []),
    "all that is read, of a group": Case(
        {f"tailscale.com/{name}": "x" for name in KNOWN} | GROUP,
        [f"set spec.{field} of ProxyGroup 'egress'" for field in ("hostnamePrefix", "tags", "proxyClass")],
    ),
    "a hostname alone": Case({"tailscale.com/hostname": "db"}, [f"{HOSTNAME} has no effect, because the Service asks"]),
    "a device without a name": Case(
        {FQDN_KEY: "", **GROUP}, [f"annotations {GROUP_KEY} and {FQDN_KEY} have no effect"]
    ),
    "a hostname, not exposed": Case({"tailscale.com/hostname": "db", "tailscale.com/expose": "false"}, []),
    "expose": Case({"tailscale.com/expose": "True"}, ['tailscale.com/expose is "True", which turns nothing on']),
    "funnel": Case({"tailscale.com/funnel": "yes"}, ['tailscale.com/funnel is "yes", which turns nothing on']),
    "cluster DNS": Case({"tailscale.com/cluster-dns": "no"}, ["which turns nothing off"]),
    "no cluster DNS": Case({"tailscale.com/cluster-dns": "false"}, []),
    "funnel without a load balancer": Case({"tailscale.com/funnel": "true"}, ["Funnel works on Services of type"]),
    "unknown": Case({"tailscale.com/fqdn": FQDN}, [f"if you mean {FQDN_KEY}, write that"]),
    "unknown, and not like the deprecated one": Case(
        {"tailscale.com/ts-tailnet-ip": "100.64.0.9"}, [f"mean {IP_KEY},"]
    ),
    "an Ingress's": Case({"tailscale.com/http-redirect": "true"}, ["on this Service: move it to an Ingress"]),
    "a name, exposed": Case({FQDN_KEY: FQDN, **EXPOSE}, [f"{FQDN_KEY} has no effect, because"], CLUSTER_IP),
    "an address, exposed": Case({IP_KEY: "100.64.0.9", **EXPOSE}, [f"{IP_KEY} has no effect"], CLUSTER_IP),
    "both, exposed": Case({**BOTH, **EXPOSE}, [FQDN_KEY, OLD_IP_KEY], CLUSTER_IP),
    "both": Case(BOTH, [f"{FQDN_KEY} has no effect beside {OLD_IP_KEY}: remove one"]),
    "both, of a group": Case({**BOTH, **GROUP}, [f"{OLD_IP_KEY} has no effect beside {FQDN_KEY}: remove one"]),
    "a group without a device": Case(GROUP, [f"{GROUP_KEY} has no effect, because the Service asks for no proxy"]),
    "a group": Case({IP_KEY: "100.64.0.9", **GROUP}, []),
    "a name": Case({FQDN_KEY: FQDN}, []),
    "an address": Case({OLD_IP_KEY: "100.64.0.9"}, []),
    "a class like ours": Case({}, ["load balancers of class Tailscale: if it is to"], balanced("Tailscale")),
    "our class": Case({}, [], balanced("tailscale")),
    "another class": Case({}, [], balanced("example.org/lb")),
    "a class like ours, exposed": Case(EXPOSE, [], balanced("Tailscale")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_has_no_effect_is_told_once(case: Case) -> None:
    service = egress_service(case.annotations, spec=case.spec)
    notes = notices(service, SETTINGS)
    assert [words in note.message for words, note in zip(case.words, notes, strict=True)] == [True for _ in notes]
    assert {(note.type, note.once) for note in notes} <= {("Warning", True)}
    assert notices(deleting(service), SETTINGS) == []


def test_a_load_balancer_that_somebody_serves_is_let_be() -> None:
    served = {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}
    assert notices({**egress_service({}, spec=balanced("Tailscale")), "status": served}, SETTINGS) == []


NOTES = [Note("Warning", "One", "one has no effect", once=True), Note("Warning", "Two", "two neither", once=True)]
BOTH_TOLD = "ready; one has no effect; two neither"


def shown(message: str, type_: str = "TailscaleProxyReady") -> Object:
    """A status with a condition that says this."""
    other = condition("Other", True, "Other", "one has no effect")
    return {"conditions": [other, condition(type_, True, "ProxyCreated", message)]}


@pytest.mark.parametrize(
    ("before", "message", "reasons", "after"),
    [
        ({}, "ready", ["One", "Two"], "ready; two neither"),
        (shown("ready"), "ready", ["One", "Two"], "ready; two neither"),
        (shown("ready; one has no effect"), "ready", ["Two"], "ready; two neither"),
        (shown(BOTH_TOLD), "ready", [], "ready; two neither"),
        (shown(BOTH_TOLD), BOTH_TOLD, [], BOTH_TOLD),
    ],
)
@pytest.mark.parametrize(("group", "type_"), [({}, "TailscaleProxyReady"), (GROUP, "TailscaleEgressSvcValid")])
def test_the_condition_has_what_is_told_and_what_it_has_is_no_event(
    before: Object, message: str, reasons: list[str], after: str, group: dict[str, str], type_: str
) -> None:
    conditions = [{**each, "type": type_} for each in before.get("conditions", ())[1:]]
    service = {**egress_service({FQDN_KEY: FQDN, **group}), "status": {"conditions": conditions}}
    others = [Note("Normal", "Again", "one"), NOTES[0]]
    plan = told(Plan(notes=others, status=shown(message, type_)), service, NOTES[1:], SETTINGS)
    assert [note.reason for note in plan.notes] == ["Again", *reasons]
    assert [each["message"] for each in (plan.status or {})["conditions"]] == ["one has no effect", after]


def test_where_there_is_no_condition_events_are_enough() -> None:
    assert told(Plan(), egress_service({}), NOTES, SETTINGS) == Plan(notes=NOTES)
    status = {"conditions": [condition("Other", True, "Other", "")]}
    assert told(Plan(status=status), egress_service({}), NOTES, SETTINGS) == Plan(status=status, notes=NOTES)
    assert told(Plan(status=status), egress_service({}), [], SETTINGS) == Plan(status=status)
