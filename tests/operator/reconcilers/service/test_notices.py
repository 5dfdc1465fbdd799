"""The warnings about parts of a Service that have no effect, in Events and in the condition."""

from dataclasses import replace

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.notices import notices, with_notes
from tsoperator.runtime.plan import Note, Plan

from tests.operator.reconcilers.service.specs import (
    CLUSTER_IP,
    EXPOSE,
    FQDN_KEY,
    FUNNEL,
    GROUP,
    GROUP_KEY,
    IP_KEY,
    LOAD_BALANCER,
    OF_OTHERS,
    OLD_IP_KEY,
    OPT_OUT,
)
from tests.support.objects import FQDN, deleting, egress_service, reasons_of, settings, status_of

SETTINGS = settings()
HOSTNAME = {"tailscale.com/hostname": "db"}
NEARLY_OURS = {**LOAD_BALANCER, "loadBalancerClass": "Tailscale"}
KNOWN = ("hostname", "tags", "tailnet-fqdn", "tailnet-ip", "proxy-class")
BOTH = {FQDN_KEY: FQDN, OLD_IP_KEY: "100.64.0.9"}
ALL_KNOWN = {f"tailscale.com/{name}": "x" for name in KNOWN}
NO_GROUP_EFFECT = [f"set spec.{field} of ProxyGroup 'egress'" for field in ("hostnamePrefix", "tags", "proxyClass")]


@pytest.mark.parametrize(
    ("annotations", "spec", "words"),
    [
        ({}, None, []),
        (ALL_KNOWN, None, []),
        (ALL_KNOWN | GROUP, None, NO_GROUP_EFFECT),
        (HOSTNAME, None, ["annotation tailscale.com/hostname has no effect, because the Service asks"]),
        ({**HOSTNAME, **GROUP}, None, [f"annotations tailscale.com/hostname and {GROUP_KEY} have no effect"]),
        ({FQDN_KEY: "", **GROUP}, None, [f"annotation {FQDN_KEY} is empty, so the Service leads nowhere"]),
        ({"tailscale.com/tailnet": "lab"}, None, [f"on this Service: name a ProxyGroup in {GROUP_KEY} whose"]),
        (
            EXPOSE,
            {"type": "ExternalName", "externalName": FQDN},
            [f"Pods are to reach it by this Service, write annotation {FQDN_KEY}: {FQDN}"],
        ),
        (EXPOSE, {"type": "ExternalName", "externalName": "db.example.org"}, []),
        ({**HOSTNAME, "tailscale.com/expose": "false"}, None, []),
        ({"tailscale.com/expose": "True"}, None, ['tailscale.com/expose is "True", which turns nothing on']),
        ({"tailscale.com/funnel": "yes"}, None, ['tailscale.com/funnel is "yes", which turns nothing on']),
        ({"tailscale.com/cluster-dns": "no"}, None, ["which turns nothing off"]),
        (OPT_OUT, None, []),
        (FUNNEL, None, ["Funnel works on Services of type LoadBalancer"]),
        ({"tailscale.com/fqdn": FQDN}, None, [f"if you mean {FQDN_KEY}, write that"]),
        ({"tailscale.com/ts-tailnet-ip": "100.64.0.9"}, None, [f"mean {IP_KEY},"]),
        ({"tailscale.com/http-redirect": "true"}, None, ["on this Service: move it to an Ingress"]),
        ({FQDN_KEY: FQDN, **EXPOSE}, CLUSTER_IP, [f"{FQDN_KEY} has no effect, because"]),
        ({IP_KEY: "100.64.0.9", **EXPOSE}, CLUSTER_IP, [f"{IP_KEY} has no effect"]),
        (BOTH | EXPOSE, CLUSTER_IP, [FQDN_KEY, OLD_IP_KEY]),
        (BOTH, None, [f"{FQDN_KEY} has no effect beside {OLD_IP_KEY}: remove one"]),
        (BOTH | GROUP, None, [f"{OLD_IP_KEY} has no effect beside {FQDN_KEY}: remove one"]),
        (GROUP, None, [f"{GROUP_KEY} has no effect, because the Service asks for no proxy"]),
        ({IP_KEY: "100.64.0.9", **GROUP}, None, []),
        ({FQDN_KEY: FQDN}, None, []),
        ({OLD_IP_KEY: "100.64.0.9"}, None, []),
        ({}, NEARLY_OURS, ["load balancers of class Tailscale: if it is to"]),
        ({}, LOAD_BALANCER, []),
        ({}, OF_OTHERS, []),
        (EXPOSE, NEARLY_OURS, []),
    ],
)
def test_one_warning_names_each_ineffective_part_of_a_service(
    annotations: Object, spec: Object | None, words: list[str]
) -> None:
    service = egress_service(annotations, spec=spec)
    notes = notices(parse(service, SETTINGS))
    assert [each in note.message for each, note in zip(words, notes, strict=True)] == [True for _ in notes]
    assert {(note.type, note.once) for note in notes} <= {("Warning", True)}
    assert notices(parse(deleting(service), SETTINGS)) == []


def test_no_warning_names_a_load_balancer_that_somebody_else_serves() -> None:
    served = {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}
    assert notices(parse({**egress_service({}, spec=NEARLY_OURS), "status": served}, SETTINGS)) == []


NOTES = [Note("Warning", "One", "one has no effect", once=True), Note("Warning", "Two", "two neither", once=True)]
BOTH_TOLD = "ready; one has no effect; two neither"


@pytest.mark.parametrize(
    ("before", "message", "reasons", "after"),
    [
        ("", "ready", ["One", "Two"], "ready; two neither"),
        ("ready", "ready", ["One", "Two"], "ready; two neither"),
        ("ready; one has no effect", "ready", ["Two"], "ready; two neither"),
        (BOTH_TOLD, "ready", [], "ready; two neither"),
        (BOTH_TOLD, BOTH_TOLD, [], BOTH_TOLD),
    ],
)
@pytest.mark.parametrize(("group", "type_"), [({}, "TailscaleProxyReady"), (GROUP, "TailscaleEgressSvcValid")])
def test_the_condition_has_all_warnings_and_each_new_warning_is_also_an_event(
    before: str, message: str, reasons: list[str], after: str, group: Object, type_: str
) -> None:
    shown = [condition(type_, True, "ProxyCreated", before)] if before else []
    service = {**egress_service({FQDN_KEY: FQDN, **group}), "status": {"conditions": shown}}
    wanted = [condition("Other", True, "Other", "one"), condition(type_, True, "ProxyCreated", message)]
    made = Plan(notes=[Note("Normal", "Again", "one"), NOTES[0]], status={"conditions": wanted})
    plan = with_notes(made, parse(service, SETTINGS), NOTES[1:])
    assert reasons_of(plan) == ["Again", *reasons]
    assert [each["message"] for each in status_of(plan)["conditions"]] == ["one", after]


def test_a_service_without_a_condition_has_the_warnings_only_in_events() -> None:
    for plan in (Plan(), Plan(status={"conditions": [condition("Other", True, "Other", "")]})):
        assert with_notes(plan, parse(egress_service({}), SETTINGS), NOTES) == replace(plan, notes=NOTES)
        assert with_notes(plan, parse(egress_service({}), SETTINGS), []) == plan
