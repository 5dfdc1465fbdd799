"""Tests of the rules of the simulated API server for Services."""

import pytest
from clustersim.objects import SERVICE, Object
from clustersim.store import ApiError, Store

from tests.loadtest.clustersim.serving import service

BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "tailscale"}
SHOWN = {"loadBalancer": {"ingress": [{"hostname": "web.example.org"}, {"ip": "100.64.0.1"}]}}


@pytest.fixture
def store() -> Store:
    """A store with a Service."""
    store = Store()
    store.create(SERVICE, service())
    return store


def change(store: Store, **spec: object) -> Object:
    return store.merge(SERVICE, "default", "web", {"spec": spec})


def test_a_new_service_gets_a_cluster_ip_and_default_values(store: Store) -> None:
    spec = store.get(SERVICE, "default", "web")["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec == {
        "type": "ClusterIP",
        "clusterIP": spec["clusterIP"],
        "clusterIPs": [spec["clusterIP"]],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
    }


def test_two_services_have_different_cluster_ips() -> None:
    store = Store()
    wanted = store.create(SERVICE, service("a", clusterIP="10.96.0.1"))["spec"]["clusterIP"]
    assert wanted == "10.96.0.1"
    assert store.create(SERVICE, service("b"))["spec"]["clusterIP"] != wanted
    with pytest.raises(ApiError, match="already allocated"):
        store.create(SERVICE, service("c", clusterIP=wanted))
    store.delete(SERVICE, "default", "a")
    assert store.create(SERVICE, service("c", clusterIP=wanted))["spec"]["clusterIPs"] == [wanted]


def test_a_node_port_belongs_to_one_service_until_that_service_is_deleted() -> None:
    store, wanted = Store(), {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}
    store.create(SERVICE, service("a", **wanted))
    store.merge(SERVICE, "default", "a", {"spec": wanted})
    with pytest.raises(ApiError, match="Invalid value: 30001: provided port is already allocated"):
        store.create(SERVICE, service("b", **wanted))
    store.delete(SERVICE, "default", "a")
    store.create(SERVICE, service("b", **wanted))


SELECTING = {"clusterIP": "None", "selector": {"a": "b"}}


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        (SELECTING, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4"]),
        ({**SELECTING, "ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv6", "IPv4"]),
    ],
)
def test_only_a_headless_dual_stack_service_can_have_an_ip_family_that_no_cluster_ip_has(
    spec: Object, policy: str, families: list[str]
) -> None:
    created = Store(families=["IPv6", "IPv4"]).create(SERVICE, service(**spec))["spec"]
    assert (created["ipFamilyPolicy"], created["ipFamilies"]) == (policy, families)
    assert created["clusterIPs"] == [created["clusterIP"]]


def test_a_service_can_have_a_cluster_ip_of_each_ip_family() -> None:
    store = Store(service_families=["IPv4", "IPv6"])
    single = store.create(SERVICE, service())["spec"]
    dual = change(store, ipFamilyPolicy="PreferDualStack", ipFamilies=None)["spec"]
    assert (single["ipFamilies"], dual["ipFamilies"]) == (["IPv4"], ["IPv4", "IPv6"])
    assert dual["clusterIPs"] == [single["clusterIP"], "2001:db8:96::1"]
    assert change(store, ports=[{"port": 81}])["spec"]["clusterIPs"] == dual["clusterIPs"]
    other = store.create(SERVICE, service("other", ipFamilyPolicy="PreferDualStack"))["spec"]
    assert other["clusterIPs"][1] == "2001:db8:96::2"
    first = Store(service_families=["IPv6"]).create(SERVICE, service(ipFamilyPolicy="PreferDualStack"))["spec"]
    assert (first["clusterIPs"], first["ipFamilies"]) == (["2001:db8:96::1"], ["IPv6"])


@pytest.mark.parametrize(
    ("spec", "changed"),
    [
        (BALANCED, {"loadBalancerClass": "other"}),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, {"ports": [{"port": 80, "nodePort": 29999}]}),
    ],
)
def test_the_api_server_refuses_to_change_a_load_balancer_class_or_to_set_a_node_port_out_of_range(
    store: Store, spec: Object, changed: Object
) -> None:
    change(store, **spec)
    with pytest.raises(ApiError, match=r"may not change once set|29999: provided port is not in the valid range"):
        change(store, **changed)


def test_an_externalname_service_has_no_cluster_ip_and_no_node_ports(store: Store) -> None:
    spec = change(store, type="ExternalName", externalName="db.example.org")["spec"]
    assert spec.keys() == {"type", "externalName", "sessionAffinity", "ports"}
    back = change(store, type="ClusterIP")["spec"]
    assert (back["clusterIP"].startswith("10.96."), "externalName" in back) == (True, False)


def test_only_a_service_of_type_loadbalancer_can_have_addresses_in_its_status(store: Store) -> None:
    with pytest.raises(ApiError, match="LoadBalancer"):
        store.merge(SERVICE, "default", "web", {"status": SHOWN}, "status")
    change(store, **BALANCED)
    status = store.merge(SERVICE, "default", "web", {"status": SHOWN}, "status")["status"]
    assert status["loadBalancer"]["ingress"] == [{"hostname": "web.example.org"}, {"ip": "100.64.0.1", "ipMode": "VIP"}]
    plain = change(store, type="ClusterIP")
    assert (plain["status"]["loadBalancer"], "loadBalancerClass" in plain["spec"]) == ({}, False)
