"""Exposed Services: how users ask for them, where their proxies lead, and the device that their status shows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.proxy.proxypod import served_service
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.reconcilers.service import exposure
from tsoperator.reconcilers.service.ask import Ask, parse
from tsoperator.reconcilers.service.violations import violations

from tests.operator.reconcilers.service.specs import (
    BY_NAME,
    CLUSTER_IP,
    EXPOSE,
    FUNNEL,
    HEADLESS,
    LOAD_BALANCER,
    OF_OTHERS,
)
from tests.support.objects import egress_service, settings

SETTINGS, DEFAULT = settings(), settings(default_load_balancer=True)
NO_CLASS = {**CLUSTER_IP, "type": "LoadBalancer"}
WITH_PORTS = {**LOAD_BALANCER, "ports": [{"port": 80}]}
DOMAIN = "${TS_CERT_DOMAIN}"
NAME = "lb.tail1234.ts.net"
DEVICE = ReportedDevice("n1", NAME, NAME, serves_no_https=False, ips=("100.64.0.7", "fd7a::7", "nonsense"))
NAMELESS = ReportedDevice("n1", "", "", serves_no_https=False)


def ask(annotations: Object, spec: Object) -> Ask:
    return parse(egress_service(annotations, spec=spec), SETTINGS)


@pytest.mark.parametrize(
    ("annotations", "spec", "exposed"),
    [
        ({}, CLUSTER_IP, False),
        (EXPOSE, CLUSTER_IP, True),
        ({"tailscale.com/expose": "True"}, CLUSTER_IP, False),
        (EXPOSE, HEADLESS, True),
        (EXPOSE, BY_NAME, True),
        ({}, BY_NAME, False),
        (EXPOSE, {"type": "ExternalName"}, False),
        ({}, LOAD_BALANCER, True),
        ({}, OF_OTHERS, False),
        (EXPOSE, OF_OTHERS, True),
        ({}, {**LOAD_BALANCER, "clusterIP": ""}, False),
        ({}, {**CLUSTER_IP, "loadBalancerClass": "tailscale"}, False),
        ({}, NO_CLASS, False),
    ],
)
def test_a_service_asks_to_be_exposed_by_its_class_or_its_annotation(
    annotations: Object, spec: Object, exposed: bool
) -> None:
    service = egress_service(annotations, spec=spec)
    asks = [parse(service, chosen).is_exposed for chosen in (SETTINGS, DEFAULT)]
    assert asks == [exposed, exposed or spec == NO_CLASS]


def test_funnel_works_only_on_load_balancers_of_our_class() -> None:
    asks = [ask({**EXPOSE, **FUNNEL}, spec) for spec in (LOAD_BALANCER, CLUSTER_IP, OF_OTHERS)]
    assert [exposure.pod(each) == served_service() for each in asks] == [True, False, False]
    assert [exposure.serve_config(each) is None for each in asks] == [False, True, True]


def test_a_port_that_funnel_cannot_serve_is_a_violation_only_if_the_service_is_public_already() -> None:
    asked = ask(FUNNEL, WITH_PORTS)
    assert [len(violations(asked, is_public=public)) for public in (True, False)] == [1, 0]
    assert (exposure.pod(asked) != served_service(), exposure.serve_config(asked)) == (True, None)
    for annotations, class_ in (({}, "tailscale"), ({**EXPOSE, **FUNNEL}, "other")):
        assert violations(ask(annotations, {**WITH_PORTS, "loadBalancerClass": class_}), is_public=True) == []


def test_a_service_that_still_points_at_its_egress_proxy_is_not_exposed() -> None:
    name = "ts-db-x7k2p.tailscale.svc.cluster.local"
    (message,) = violations(ask(EXPOSE, {**BY_NAME, "externalName": name}))
    assert (name in message, "set spec.type" in message) == (True, True)


class Case(NamedTuple):
    annotations: Object
    spec: Object
    device: ReportedDevice | None
    entries: Sequence[Object] | None
    reason: str = "ProxyCreated"
    note: str = "ProxyCreated"
    words: str = ""


NO_HOSTNAME = "no hostname is known"
SHOWN = ({"hostname": NAME}, {"ip": "100.64.0.7"})
RENAMED = ReportedDevice("n1", "old.tail1234.ts.net", NAME, serves_no_https=False, ips=("100.64.0.7",))
NO_HTTPS, ON_HEADSCALE = (ReportedDevice(id_, NAME, "", serves_no_https=True) for id_ in ("n1", "7"))


@pytest.mark.parametrize(
    "case",
    [
        Case({}, LOAD_BALANCER, DEVICE, SHOWN),
        Case({}, {**LOAD_BALANCER, "clusterIP": "2001:db8::4"}, DEVICE, ({"hostname": NAME}, {"ip": "fd7a::7"})),
        Case({}, {**LOAD_BALANCER, "clusterIP": "unreadable"}, DEVICE, ({"hostname": NAME},)),
        Case({}, LOAD_BALANCER, None, (), "ProxyPending", "ProxyPending", NO_HOSTNAME),
        Case({}, LOAD_BALANCER, NAMELESS, (), "ProxyPending", "ProxyPending", NO_HOSTNAME),
        Case(FUNNEL, LOAD_BALANCER, None, (), "ProxyPending", "ProxyPending", NO_HOSTNAME),
        Case(FUNNEL, LOAD_BALANCER, NAMELESS, (), "ProxyPending", "ProxyPending", NO_HOSTNAME),
        Case(EXPOSE, NO_CLASS, None, None, note=""),
        Case(FUNNEL, LOAD_BALANCER, RENAMED, ({"hostname": NAME},)),
        Case(FUNNEL, LOAD_BALANCER, NO_HTTPS, (), "ProxyPending", "HTTPSNotEnabled", "enable MagicDNS and HTTPS"),
        Case(FUNNEL, LOAD_BALANCER, ON_HEADSCALE, (), "UnsupportedByControlServer", "UnsupportedByControlServer"),
    ],
)
def test_the_status_of_an_exposed_service_shows_its_device_or_says_what_it_waits_for(case: Case) -> None:
    shown = exposure.shown(ask(case.annotations, case.spec), case.device)
    is_ready = case.reason == "ProxyCreated"
    assert shown.entries == case.entries
    assert (shown.condition["status"], shown.condition["reason"]) == (str(is_ready), case.reason)
    assert case.words in shown.condition["message"]
    assert [note.reason for note in shown.notes] == [case.note] * bool(case.note)
    assert is_ready or [note.message for note in shown.notes] == [shown.condition["message"]]
    assert all(note.type == "Normal" for note in shown.notes if note.reason == "ProxyPending")


def showing(load_balancer: Any) -> Ask:
    return parse({**egress_service({}, spec=LOAD_BALANCER), "status": {"loadBalancer": load_balancer}}, SETTINGS)


def test_a_load_balancer_status_that_differs_only_by_the_api_servers_defaults_stays() -> None:
    defaulted = {"ingress": [{"hostname": NAME}, {"ip": "100.64.0.7", "ipMode": "VIP"}]}
    assert exposure.load_balancer(showing(defaulted), SHOWN) == defaulted
    assert exposure.load_balancer(showing(defaulted), ()) == {}
    for other in ({}, None, {"ingress": [{"hostname": "old.tail1234.ts.net"}]}):
        assert exposure.load_balancer(showing(other), SHOWN) == {"ingress": [*SHOWN]}


def test_a_load_balancer_status_is_ours_if_it_shows_our_device() -> None:
    others = [{"hostname": "lb.example.org"}, {"ip": "192.0.2.9"}]
    found = [exposure.shows(showing({"ingress": each}), DEVICE) for each in (SHOWN[:1], SHOWN[1:], others, [])]
    assert found == [True, True, False, False]
    assert exposure.shows(showing({"ingress": [{"hostname": NAME}]}), RENAMED)
    assert not exposure.shows(showing({"ingress": SHOWN}), None)
    assert not exposure.shows(showing({"ingress": [{"hostname": ""}]}), NAMELESS)


@pytest.mark.parametrize(("address", "host"), [("192.0.2.4", "192.0.2.4"), ("2001:db8::4", "[2001:db8::4]")])
def test_with_funnel_the_proxy_of_a_service_terminates_tls_and_forwards_each_port(address: str, host: str) -> None:
    spec = {"clusterIP": address, "ports": [{"port": 443}, {"port": 8443}]}
    assert exposure.serve_config(ask(FUNNEL, LOAD_BALANCER | spec)) == {
        "TCP": {
            "443": {"TCPForward": f"{host}:443", "TerminateTLS": DOMAIN},
            "8443": {"TCPForward": f"{host}:8443", "TerminateTLS": DOMAIN},
        },
        "AllowFunnel": {f"{DOMAIN}:443": True, f"{DOMAIN}:8443": True},
    }
