"""Which Services are exposed, where their proxies lead, and what they show."""

from typing import Any, NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.desired.proxypod import served_service
from tsoperator.desired.secret import ReportedDevice
from tsoperator.reconcilers.service import exposure

from tests.support.objects import egress_service, settings

SETTINGS = settings()
DEFAULT = settings(default_load_balancer=True)
EXPOSE = {"tailscale.com/expose": "true"}
FUNNEL = {"tailscale.com/funnel": "true"}
CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}
LOAD_BALANCER = {**CLUSTER_IP, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}
NO_CLASS = {**CLUSTER_IP, "type": "LoadBalancer"}
BY_NAME = {"type": "ExternalName", "externalName": "db.example.org"}
NAME = "lb.tail1234.ts.net"
DEVICE = ReportedDevice("n1", NAME, NAME, serves_no_https=False, ips=("100.64.0.7", "fd7a::7", "nonsense"))


class Asks(NamedTuple):
    annotations: dict[str, str]
    spec: Object
    exposed: bool
    by_default: bool | None = None
    """With our class as the default one, if that makes a difference."""


@pytest.mark.parametrize(
    "case",
    [
        Asks({}, CLUSTER_IP, exposed=False),
        Asks(EXPOSE, CLUSTER_IP, exposed=True),
        Asks({"tailscale.com/expose": "True"}, CLUSTER_IP, exposed=False),
        Asks(EXPOSE, {**CLUSTER_IP, "clusterIP": "None"}, exposed=True),
        Asks(EXPOSE, BY_NAME, exposed=True),
        Asks({}, BY_NAME, exposed=False),
        Asks(EXPOSE, {"type": "ExternalName"}, exposed=False),
        Asks({}, LOAD_BALANCER, exposed=True),
        Asks({}, {**LOAD_BALANCER, "loadBalancerClass": "other"}, exposed=False),
        Asks(EXPOSE, {**LOAD_BALANCER, "loadBalancerClass": "other"}, exposed=True),
        Asks({}, {**LOAD_BALANCER, "clusterIP": ""}, exposed=False),
        Asks({}, {**CLUSTER_IP, "loadBalancerClass": "tailscale"}, exposed=False),
        Asks({}, NO_CLASS, exposed=False, by_default=True),
    ],
)
def test_a_service_is_exposed_by_its_class_or_its_annotation(case: Asks) -> None:
    service = egress_service(case.annotations, spec=case.spec)
    by_default = case.exposed if case.by_default is None else case.by_default
    assert [exposure.asks(service, chosen) for chosen in (SETTINGS, DEFAULT)] == [case.exposed, by_default]


def test_funnel_is_served_on_our_load_balancers_only() -> None:
    specs = (LOAD_BALANCER, CLUSTER_IP, {**LOAD_BALANCER, "loadBalancerClass": "other"})
    services = [egress_service({**EXPOSE, **FUNNEL}, spec=spec) for spec in specs]
    assert [exposure.pod(service, SETTINGS) == served_service() for service in services] == [True, False, False]
    assert [exposure.serve_config(service, SETTINGS) is None for service in services] == [False, True, True]


WITH_PORTS = {**LOAD_BALANCER, "ports": [{"port": 80}]}


NO_EFFECT = "annotation tailscale.com/funnel has no effect: Funnel works on Services of type LoadBalancer"


class Funnels(NamedTuple):
    annotations: dict[str, str]
    spec: Object
    unserved: str = ""
    """What is told because of the ports."""
    ignored: str = ""
    """What is told because it is no load balancer of ours."""


@pytest.mark.parametrize(
    "case",
    [
        Funnels(FUNNEL, LOAD_BALANCER),
        Funnels({}, WITH_PORTS),
        Funnels(FUNNEL, WITH_PORTS, "Funnel can't serve port 80/TCP"),
        Funnels(FUNNEL, WITH_PORTS, "Until then only the tailnet reaches the Service, at all of its ports"),
        Funnels({**EXPOSE, **FUNNEL}, CLUSTER_IP, ignored=NO_EFFECT),
        Funnels(FUNNEL, CLUSTER_IP, ignored=NO_EFFECT),
    ],
)
def test_funnel_without_effect_is_told_once(case: Funnels) -> None:
    service = egress_service(case.annotations, spec=case.spec)
    found = [(case.unserved, exposure.port_notices(service)), (case.ignored, exposure.notices(service, SETTINGS))]
    for words, notes in found:
        assert [words in note.message for note in notes] == ([True] if words else [])
    notes = [note for _, each in found for note in each]
    assert {(note.type, note.reason, note.once) for note in notes} <= {("Warning", "FunnelIgnored", True)}


@pytest.mark.parametrize(
    ("annotations", "spec", "public", "count"),
    [
        (FUNNEL, WITH_PORTS, True, 1),
        (FUNNEL, WITH_PORTS, False, 0),
        ({}, WITH_PORTS, True, 0),
        ({**EXPOSE, **FUNNEL}, {**WITH_PORTS, "loadBalancerClass": "other"}, True, 0),
    ],
)
def test_a_port_without_funnel_is_refused_where_the_internet_would_lose_the_service(
    annotations: dict[str, str], spec: Object, public: bool, count: int
) -> None:
    service = egress_service(annotations, spec=spec)
    assert len(exposure.violations(service, SETTINGS, is_public=public)) == count
    assert exposure.pod(service, SETTINGS) != served_service()
    assert exposure.serve_config(service, SETTINGS) is None


def test_the_proxy_that_a_service_had_for_egress_is_not_exposed() -> None:
    name = "ts-db-x7k2p.tailscale.svc.cluster.local"
    service = egress_service(EXPOSE, spec={"type": "ExternalName", "externalName": name})
    (message,) = exposure.violations(service, SETTINGS)
    assert (name in message, "set spec.type" in message) == (True, True)


def reason(shown: exposure.Shown) -> tuple[str, str]:
    return shown.condition["status"], shown.condition["reason"]


@pytest.mark.parametrize(
    ("address", "ips"), [("192.0.2.4", ["100.64.0.7"]), ("2001:db8::4", ["fd7a::7"]), ("unreadable", [])]
)
def test_a_load_balancer_shows_the_devices_name_and_address_of_its_family(address: str, ips: list[str]) -> None:
    shown = exposure.shown(egress_service({}, spec={**LOAD_BALANCER, "clusterIP": address}), DEVICE, SETTINGS)
    assert shown.entries == ({"hostname": NAME}, *({"ip": ip} for ip in ips))
    assert reason(shown) == ("True", "ProxyCreated")


@pytest.mark.parametrize("device", [None, ReportedDevice("n1", "", "", serves_no_https=False)])
@pytest.mark.parametrize("annotations", [{}, FUNNEL])
def test_a_load_balancer_without_a_device_waits(annotations: dict[str, str], device: ReportedDevice | None) -> None:
    shown = exposure.shown(egress_service(annotations, spec=LOAD_BALANCER), device, SETTINGS)
    assert (shown.entries, reason(shown)) == ((), ("False", "ProxyPending"))
    assert "no hostname is known" in shown.condition["message"]
    assert [(note.type, note.reason) for note in shown.notes] == [("Normal", "ProxyPending")]
    assert [note.message for note in shown.notes] == [shown.condition["message"]]


def test_a_service_without_a_load_balancer_of_ours_shows_nothing_and_is_ready() -> None:
    shown = exposure.shown(egress_service(EXPOSE, spec=NO_CLASS), None, SETTINGS)
    assert (shown.entries, reason(shown), shown.notes) == (None, ("True", "ProxyCreated"), ())


def test_a_public_service_shows_its_public_name_only() -> None:
    device = ReportedDevice("n1", "old.tail1234.ts.net", NAME, serves_no_https=False, ips=("100.64.0.7",))
    shown = exposure.shown(egress_service(FUNNEL, spec=LOAD_BALANCER), device, SETTINGS)
    assert (shown.entries, reason(shown)) == (({"hostname": NAME},), ("True", "ProxyCreated"))


def test_a_public_service_without_https_says_what_to_enable() -> None:
    device = ReportedDevice("n1", NAME, "", serves_no_https=True)
    shown = exposure.shown(egress_service(FUNNEL, spec=LOAD_BALANCER), device, SETTINGS)
    assert (shown.entries, reason(shown)) == ((), ("False", "ProxyPending"))
    assert [note.reason for note in shown.notes] == ["HTTPSNotEnabled"]
    assert "Funnel can't work: enable MagicDNS and HTTPS" in shown.condition["message"]


def test_a_public_service_on_headscale_is_said_to_be_out_of_reach() -> None:
    shown = exposure.shown(
        egress_service(FUNNEL, spec=LOAD_BALANCER), ReportedDevice("7", NAME, "", serves_no_https=True), SETTINGS
    )
    assert (shown.entries, reason(shown)) == ((), ("False", "UnsupportedByControlServer"))
    assert [note.message for note in shown.notes] == [shown.condition["message"]]


ENTRIES = ({"hostname": NAME}, {"ip": "100.64.0.7"})
DEFAULTED = {"ingress": [{"hostname": NAME}, {"ip": "100.64.0.7", "ipMode": "VIP"}]}


def showing(load_balancer: Any) -> Object:
    return {**egress_service({}, spec=LOAD_BALANCER), "status": {"loadBalancer": load_balancer}}


@pytest.mark.parametrize("there", [DEFAULTED, {"ingress": [*ENTRIES]}])
def test_fields_that_the_api_server_added_stay(there: Object) -> None:
    assert exposure.load_balancer(showing(there), ENTRIES) == there


@pytest.mark.parametrize("there", [{}, None, {"ingress": [{"hostname": "old.tail1234.ts.net"}]}])
def test_a_load_balancer_that_shows_something_else_is_replaced(there: Object | None) -> None:
    assert exposure.load_balancer(showing(there), ENTRIES) == {"ingress": [*ENTRIES]}


def test_a_load_balancer_without_entries_is_cleared() -> None:
    assert exposure.load_balancer(showing(DEFAULTED), ()) == {}


@pytest.mark.parametrize(
    ("entries", "device", "ours"),
    [
        ([{"hostname": NAME}], DEVICE, True),
        ([{"ip": "100.64.0.7"}], DEVICE, True),
        ([{"hostname": "lb.example.org"}, {"ip": "192.0.2.9"}], DEVICE, False),
        ([{"hostname": NAME}], None, False),
        ([], DEVICE, False),
        ([{"hostname": ""}], ReportedDevice("n1", "", "", serves_no_https=False), False),
    ],
)
def test_a_status_is_ours_if_it_shows_our_device(
    entries: list[Object], device: ReportedDevice | None, ours: bool
) -> None:
    assert exposure.shows(showing({"ingress": entries}), device) is ours
