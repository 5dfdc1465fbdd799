"""The static endpoints of a ProxyGroup."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import NODE, SERVICE, Key, Object
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.reconcilers.proxygroup.nodeports import slim_node, with_static_endpoints
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.runtime.plan import Refusal

from tests.operator.reconcilers.proxygroup.groups import OWNED, OWNER, joined, live_group, plan_of, proxy_of, running
from tests.support.objects import (
    children_of,
    deletions_of,
    live_proxy_class,
    obj,
    reasons_of,
    slim_secret,
    status_of,
    texts,
)


def node(name: str, *addresses: str, kind: str = "ExternalIP", **labels: str) -> Object:
    listed = [{"type": kind, "address": address} for address in addresses]
    return slim_node(
        obj(NODE, Key("", name), {"status": {"addresses": listed, "images": []}, "spec": {}}, labels=labels)
    )


def service(name: str, node_port: int, port: int = 0) -> Object:
    listed = {"nodePort": node_port, **({"port": port} if port else {})}
    return obj(SERVICE, Key("tailscale", f"{name}-nodeport"), {"spec": {"ports": [listed]}}, labels=OWNER.labels)


def two_ports(name: str, node_port: int) -> Object:
    """Return a Service with two ports. It isn't ours, because our Services have one port."""
    return {**service(name, 1), "spec": {"ports": [{"nodePort": node_port}, {"nodePort": 1}]}}


def users_service(*node_ports: int, name: str = "web", health: int = 0) -> Object:
    """Return a Service of a user with *node_ports*. *health* is its node port for health checks; 0 if it has none."""
    ports = [{"port": 80}, *({"nodePort": port} for port in node_ports)]
    spec = {"ports": ports} | ({"healthCheckNodePort": health} if health else {})
    return obj(SERVICE, Key("default", name), {"spec": spec})


def config(*endpoints: str) -> Object:
    return slim_secret("foo-0-config", {"cap-106.hujson": {"StaticEndpoints": [*endpoints]}})


A, B = node("a", "192.0.2.1", zone="x"), node("b", "192.0.2.2", zone="y")


def found(
    ranges: str = "3000-3010",
    replicas: int = 1,
    there: tuple[Object, ...] = (),
    nodes: tuple[Object, ...] = (A, B),
    current: tuple[str, ...] = (),
    selector: Object | None = None,
) -> Proxy | Refusal:
    """Return the Proxy of a group with *replicas* and static endpoints, or the refusal.

    The class of the group has the port *ranges*, such as ``3000-3002,3005``, and the *selector* of nodes. *there* are
    the Services with node ports, and *nodes* the nodes of the cluster. *current* are the endpoints in the config of
    replica 0.
    """
    pairs = [each.partition("-") for each in ranges.split(",")]
    ports = [{"port": int(first)} | ({"endPort": int(last)} if last else {}) for first, _, last in pairs]
    proxy = proxy_of(live_group({"replicas": replicas}), Observed(Children()))
    given = {"staticEndpoints": {"nodePort": {"ports": ports, "selector": selector or {}}}}
    asking = replace(proxy, proxy_class=ProxyClassSpec.model_validate(given))
    return with_static_endpoints(asking, Children(secrets=[config(*current)]), there, nodes)


def some(result: Proxy | Refusal) -> Proxy:
    assert isinstance(result, Proxy), result
    return result


def port_of(made: Proxy) -> int:
    """Return the port at which the proxies listen."""
    return int(made.pod.modes["PORT"])


def test_each_replica_of_a_group_with_static_endpoints_has_a_service_of_type_nodeport() -> None:
    made = some(found(there=(service("foo-0", 3004, 41641),)))
    port = {"name": "static-endpoint-port", "protocol": "UDP", "port": 41641, "targetPort": 41641, "nodePort": 3004}
    metadata = {"namespace": "tailscale", "name": "foo-0-nodeport", "labels": OWNER.labels, **OWNED}
    selector = {"statefulset.kubernetes.io/pod-name": "foo-0"}
    spec = {"type": "NodePort", "selector": selector, "ports": [port]}
    assert list(made.services) == [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]
    assert port_of(made) == 41641


@pytest.mark.parametrize(
    ("ranges", "there", "ports"),
    [
        ("3001,3005,3007", (), [3001, 3005, 3007]),
        ("3000-3002,3003-3005,3006", (), [3000, 3001, 3002, 3003, 3004, 3005, 3006]),
        ("3000-3002", (service("bar-0", 3000),), [3001, 3002]),
        ("3000-3002", (service("foo-0", 3002),), [3002, 3000]),
        ("3000-3002", (service("foo-0", 4000), service("bar-0", 3001)), [3000]),
        ("3000-3002,3001", (), [3000, 3001, 3002]),
        ("3000-3002", (two_ports("foo-0", 3001), two_ports("bar-0", 3000)), [3002]),
        ("3000-3009", (users_service(3000, 3002), users_service(4000, health=3003)), [3001, 3004]),
        ("3000-3002", (users_service(3000, name="foo-0-nodeport"),), [3001]),
    ],
)
def test_a_new_service_gets_the_first_free_node_port_and_an_old_service_keeps_its_node_port(
    ranges: str, there: tuple[Object, ...], ports: list[int]
) -> None:
    made = some(found(ranges, len(ports), there))
    assert [each["spec"]["ports"][0]["nodePort"] for each in made.services] == ports


@pytest.mark.parametrize(
    ("ranges", "replicas", "there"), [("3001,3005,3007", 4, ()), ("3000-3002", 3, (service("bar-0", 3000),))]
)
def test_a_group_reports_that_its_class_has_too_few_node_ports(
    ranges: str, replicas: int, there: tuple[Object, ...]
) -> None:
    made = found(ranges, replicas, there)
    assert isinstance(made, Refusal)
    assert "more node ports are needed" in made.message


def test_the_port_at_which_the_proxies_of_a_group_listen_is_always_the_same() -> None:
    assert 1024 <= port_of(some(found())) == port_of(some(found(replicas=2))) <= 65535


C, V6, INSIDE = node("c", "192.0.2.3"), node("v6", "2001:db8::1"), node("d", "10.0.0.1", kind="InternalIP")
AT = tuple(f"192.0.2.{number}:3000" for number in range(4))


class Endpoints(NamedTuple):
    """The endpoints *found* at the *nodes* for a replica, and the *current* endpoints in the config of the replica."""

    nodes: tuple[Object, ...]
    found: tuple[str, ...]
    current: tuple[str, ...] = ()
    zone: str = ""


ENDPOINTS = {
    "new": Endpoints((B, A), (AT[1], AT[2])),
    "selected": Endpoints((A, B), (AT[2],), zone="y"),
    "one kept": Endpoints((A, B, C), (AT[3], AT[1]), (AT[3],)),
    "order kept": Endpoints((A, B), (AT[2], AT[1]), (AT[2], AT[1])),
    "one lost": Endpoints((B,), (AT[2],), (AT[1], AT[2])),
    "all changed": Endpoints((A, B), (AT[1], AT[2]), ("192.0.2.9:3000", "192.0.2.1:4000")),
    "IPv6": Endpoints((V6, INSIDE, node("e", "nonsense")), ("[2001:db8::1]:3000",)),
    "twice": Endpoints((A, node("z", "192.0.2.1", "192.0.2.1")), (AT[1],)),
}


@pytest.mark.parametrize("case", ENDPOINTS.values(), ids=ENDPOINTS)
def test_static_endpoints_that_are_in_use_come_first(case: Endpoints) -> None:
    selector = {"zone": case.zone} if case.zone else {}
    made = some(found("3000", nodes=case.nodes, current=case.current, selector=selector))
    assert made.static_endpoints == [case.found]


@pytest.mark.parametrize("nodes", [(), (INSIDE,), (A,)])
def test_a_group_reports_that_no_node_has_an_address_for_its_endpoints_and_nothing_changes(
    nodes: tuple[Object, ...],
) -> None:
    class_ = live_proxy_class(spec=static({"zone": "y"}), ready=True)
    observed = Observed(running(0), proxy_class=class_, nodes=nodes)
    made = plan_of(live_group({"proxyClass": "prod"}), observed)
    ready = status_of(made)["conditions"][1]
    assert (made.steps, reasons_of(made), made.requeue_after) == ([], ["ProxyGroupCreationFailed"], 60)
    assert "could not find static endpoints for replica 'foo-0': no node with zone=y" in ready["message"]


def static(selector: dict[str, str]) -> Object:
    return {"staticEndpoints": {"nodePort": {"ports": [{"port": 3000, "endPort": 3001}], "selector": selector}}}


def test_static_endpoints_are_in_the_config_the_environment_and_the_status() -> None:
    class_ = live_proxy_class(spec=static({}), ready=True)
    live = slim_secret("foo-0-config", {"cap-106.hujson": {"StaticEndpoints": [AT[1]]}}, OWNER.labels)
    children = Children(secrets=[joined(0)[0], live], pods=running(0).pods)
    made = plan_of(live_group({"proxyClass": "prod"}), Observed(children, proxy_class=class_, nodes=(A,)))
    of_kind = {each["metadata"]["name"]: each for each in children_of(made)}
    assert '"StaticEndpoints":["192.0.2.1:3001"]' in texts(of_kind["foo-1-config"])["cap-106.hujson"]
    env = of_kind["foo"]["spec"]["template"]["spec"]["containers"][0]["env"]
    port = of_kind["foo-1-nodeport"]["spec"]["ports"][0]["port"]
    assert [(each["name"], each.get("value")) for each in env[8:10]] == [
        ("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", "/etc/tsconfig/$(POD_NAME)"),
        ("PORT", str(port)),
    ]
    assert status_of(made)["devices"][0]["staticEndpoints"] == [AT[1]]


def test_the_services_with_node_ports_are_deleted_when_the_class_has_no_static_endpoints() -> None:
    there = service("foo-0", 3000)
    children = Children(services=[there], secrets=running(0, 1).secrets, pods=running(0, 1).pods)
    assert [each.obj for each in deletions_of(plan_of(live_group(), Observed(children)))] == [there]
    surplus = Children(services=[there], secrets=running(0, 1, 2).secrets, pods=running(0, 1, 2).pods)
    assert deletions_of(plan_of(live_group(), Observed(surplus))) == []
