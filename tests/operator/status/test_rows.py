"""The rows of the report, from objects and their surroundings."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import STATEFULSET, Key, Object
from tsoperator.reconcilers.service.ask import parse
from tsoperator.runtime.plan import LastingWarning
from tsoperator.settings import Settings
from tsoperator.status.rows import Row, Served, Surroundings, role_of, row_of

from tests.support.manifests import (
    FQDN,
    backend,
    connector,
    dnsconfig,
    egress,
    exposed,
    group_egress,
    ingress,
    load_balancer,
    proxy_class,
    proxy_group,
    recorder,
)
from tests.support.objects import endpoint, endpoint_slice, obj, settings, slim_secret

IPS = ["100.64.0.5", "fd7a:115c:a1e0::5"]
DEVICE = slim_secret("ts-x-0", {"device_id": "nX", "device_fqdn": "x.tail1234.ts.net.", "device_ips": '["100.64.0.5"]'})
STARTED: Object = {"metadata": {"name": "ts-x"}, "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}
DOWN = obj(STATEFULSET, Key("tailscale", "ts-x"), {"spec": {"replicas": 1}})
POD: Object = {"status": {"podIPs": [{"ip": "10.244.0.7"}]}}
GROUP = proxy_group(replicas=3, tailnet="other")
PLACE: Object = {"metadata": {"name": "ts-db-x7k2p"}, "spec": {"clusterIPs": ["10.96.0.9"]}}
SLICES = [
    endpoint_slice("ts-db-x7k2p", *({**endpoint(f"{net}{pod}"), "hostname": f"uid-{pod}"} for pod in (1, 2)))
    for net in ("10.244.0.", "2001:db8::")
]
ADVERTISED = {"AdvertiseServices": ["svc:default-lb"]}
HOST = slim_secret("pg-0", {"device_fqdn": "pg-0.tail1234.ts.net.", "cap-107.hujson": ADVERTISED})


def served(status: Object) -> Object:
    return {"status": {"loadBalancer": {"ingress": [status]}}}


class Case(NamedTuple):
    obj: Object
    around: Surroundings
    wanted: Row | dict[str, Any]


def around(obj: Object, **facts: Any) -> Surroundings:
    return Surroundings(role_of(obj, settings()), **facts)


CASES = {
    "egress": Case(
        egress(),
        around(egress(), workloads=[STARTED], pods=[POD], addresses=IPS),
        {
            "role": "egress", "names": [FQDN], "addresses": IPS, "inCluster": "db.default.svc.cluster.local",
            "clusterAddresses": ["10.244.0.7"], "ready": 1, "wanted": 2,
        },
    ),
    "egress to an address": Case(
        egress(target="", tailnet_ip="100.64.0.9"),
        around(egress()),
        {"role": "egress", "addresses": ["100.64.0.9"], "inCluster": "db.default.svc.cluster.local"},
    ),
    "egress by a group": Case(
        group_egress(),
        around(
            egress(), addresses=IPS,
            served=Served(GROUP, (), PLACE, SLICES),
        ),
        {
            "role": "egress", "tailnet": "other", "names": [FQDN], "addresses": IPS,
            "inCluster": "db.default.svc.cluster.local", "clusterAddresses": ["10.96.0.9"], "ready": 2, "wanted": 3,
        },
    ),
    "egress by a group that is missing": Case(
        group_egress(),
        around(egress(), served=Served()),
        {"role": "egress", "names": [FQDN], "inCluster": "db.default.svc.cluster.local"},
    ),
    "load balancer": Case(
        load_balancer(),
        around(load_balancer(), workloads=[STARTED], secrets=[DEVICE]),
        {
            "role": "load balancer", "names": ["x.tail1234.ts.net"], "addresses": ["100.64.0.5"],
            "inCluster": "lb.default.svc.cluster.local", "ready": 1, "wanted": 2,
        },
    ),
    "load balancer at a group": Case(
        load_balancer(proxy_group="pg"),
        around(load_balancer(), addresses=IPS, served=Served(GROUP, [HOST, DEVICE])),
        {
            "role": "load balancer", "tailnet": "other", "names": ["default-lb.tail1234.ts.net"], "addresses": IPS,
            "inCluster": "lb.default.svc.cluster.local", "ready": 1, "wanted": 3,
        },
    ),
    "load balancer at a group that doesn't advertise it": Case(
        load_balancer(proxy_group="pg"),
        around(load_balancer(), served=Served(GROUP, [DEVICE])),
        {
            "role": "load balancer", "tailnet": "other", "inCluster": "lb.default.svc.cluster.local", "ready": 0,
            "wanted": 3,
        },
    ),
    "Ingress": Case(
        {**ingress(), **served({"hostname": "web.tail1234.ts.net"})},
        around(ingress(), workloads=[STARTED], secrets=[DEVICE], names_ingresses=True),
        {
            "role": "ingress", "names": ["web.tail1234.ts.net"], "addresses": ["100.64.0.5"],
            "inCluster": "web.tail1234.ts.net", "ready": 1, "wanted": 2,
        },
    ),
    "Connector": Case(
        connector(),
        around(connector(), workloads=[STARTED], secrets=[DEVICE]),
        {
            "role": "connector", "names": ["x.tail1234.ts.net"], "addresses": ["100.64.0.5"], "ready": 1, "wanted": 2,
        },
    ),
    "DNSConfig": Case(
        {**dnsconfig(), "status": {"nameserver": {"ip": "10.96.0.53"}}},
        around(dnsconfig(), workloads=[STARTED]),
        {"role": "DNS", "clusterAddresses": ["10.96.0.53"], "ready": 1, "wanted": 2},
    ),
    "a DNSConfig without a nameserver": Case(
        dnsconfig("second"), around(dnsconfig("second"), workloads=[STARTED]), {"role": "DNS"}
    ),
    "Recorder": Case(
        {**recorder(), "status": {"devices": [{"url": "https://rec-0.tail1234.ts.net", "tailnetIPs": IPS}]}},
        around(recorder(), workloads=[STARTED]),
        {"role": "recorder", "addresses": IPS, "ready": 1, "wanted": 2},
    ),
    "ProxyClass": Case(proxy_class(), around(proxy_class()), {"role": "class"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_row_says_how_an_object_is_reached_and_how_many_of_its_proxies_are_ready(name: str) -> None:
    case = CASES[name]
    found: Any = row_of(case.obj, case.around, settings())
    told = ("kind", "namespace", "name", "verdict", "words", "reason", "since")
    assert {key: value for key, value in found.items() if key not in told} == case.wanted
    assert found["kind"] == case.obj["kind"]


PENDING = condition("TailscaleProxyReady", False, "ProxyPending", "wait")
READY = condition("TailscaleProxyReady", True, "ProxyCreated", "Pods reach it")
FAILED = condition("TailscaleProxyReady", False, "ProxyFailed", "refused; another device")
HELD = LastingWarning("NameHeld", "another device", datetime(2026, 1, 2, tzinfo=UTC))
IGNORED = LastingWarning("IgnoredAnnotation", "misspelt", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("conditions", "warnings", "wanted"),
    [
        ([], [], ("waiting", None, "the operator has not looked at it yet", None)),
        ([PENDING], [], ("waiting", "ProxyPending", "wait", None)),
        ([READY], [], ("ok", "ProxyCreated", "Pods reach it", None)),
        ([READY], [IGNORED, HELD], ("failed", "IgnoredAnnotation", "misspelt; another device", "2026-01-01T00:00:00Z")),
        ([PENDING], [HELD], ("failed", "NameHeld", "another device", "2026-01-02T00:00:00Z")),
        ([FAILED], [IGNORED, HELD], ("failed", "ProxyFailed", "refused; another device; misspelt", None)),
    ],
)
def test_a_lasting_warning_makes_a_row_failed_and_its_words_follow_those_of_a_failed_condition(
    conditions: list[Object], warnings: list[LastingWarning], wanted: tuple[str | None, ...]
) -> None:
    service = {**egress(), "status": {"conditions": conditions}}
    row: Any = row_of(service, Surroundings("egress", warnings=warnings), settings())
    assert tuple(row.get(key) for key in ("verdict", "reason", "words", "since")) == wanted


@pytest.mark.parametrize(
    ("facts", "conditions", "wanted"),
    [
        ({"workloads": [STARTED]}, [READY], ("ok", "Pods reach it")),
        ({"workloads": [DOWN]}, [READY], ("waiting", "none of its Pods is ready: see StatefulSet tailscale/ts-x")),
        ({"workloads": [DOWN]}, [PENDING], ("waiting", "wait")),
        ({"workloads": [DOWN]}, [FAILED], ("failed", "refused; another device")),
        ({"served": Served(GROUP)}, [READY], ("waiting", "no proxy of its ProxyGroup serves it")),
        ({"served": Served()}, [READY], ("ok", "Pods reach it")),
    ],
)
def test_an_object_is_not_ok_as_long_as_none_of_its_proxies_is_ready(
    facts: dict[str, Any], conditions: list[Object], wanted: tuple[str, str]
) -> None:
    service = {**egress(), "status": {"conditions": conditions}}
    row: Any = row_of(service, Surroundings("egress", **facts), settings())
    assert (row["verdict"], row["words"]) == wanted


def test_an_object_that_asks_for_nothing_has_a_row_only_if_something_is_wrong_with_it() -> None:
    assert row_of(backend(), Surroundings(), settings()) is None
    row: Any = row_of(backend(), Surroundings(warnings=[IGNORED]), settings())
    assert (row["verdict"], "role" in row) == ("failed", False)


def test_the_role_of_an_ingress_of_another_ingress_class_is_empty_in_the_report() -> None:
    spec = {**ingress()["spec"], "ingressClassName": "nginx"}
    assert [role_of({**ingress(), "spec": each}, settings()) for each in (ingress()["spec"], spec)] == ["ingress", ""]


SERVICES = (
    egress(),
    group_egress(),
    backend(),
    exposed(),
    load_balancer(),
    load_balancer(class_=None),
    load_balancer(class_="other"),
    egress(expose="true"),
    egress(target="", tailnet_ip="100.64.0.9"),
    egress(target="", ts_tailnet_target_ip="100.64.0.9"),
)


@pytest.mark.parametrize("chosen", [settings(), settings(default_load_balancer=True)])
def test_the_role_of_a_service_in_the_report_says_how_the_operator_serves_the_service(chosen: Settings) -> None:
    for service in SERVICES:
        given = {**service, "spec": {"clusterIP": "10.96.0.7", **service["spec"]}}
        ask, role = parse(given, chosen), role_of(given, chosen)
        assert (role in ("exposed", "load balancer"), role == "egress") == (
            ask.is_exposed, ask.is_egress and not ask.is_exposed
        )  # fmt: skip
        assert (role == "load balancer") == ask.is_balanced
