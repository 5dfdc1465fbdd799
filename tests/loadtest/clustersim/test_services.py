"""What the API server does to Services."""

import pytest
from clustersim.objects import SERVICE
from clustersim.store import ApiError, Store

from tests.loadtest.clustersim.serving import service


def test_a_service_gets_an_address_and_defaults() -> None:
    spec = Store().create(SERVICE, service())["spec"]
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


def test_two_services_have_two_addresses() -> None:
    store = Store()
    wanted = store.create(SERVICE, service("a", clusterIP="10.96.0.1"))["spec"]["clusterIP"]
    assert wanted == "10.96.0.1"
    assert store.create(SERVICE, service("b"))["spec"]["clusterIP"] != wanted
    with pytest.raises(ApiError, match="already allocated"):
        store.create(SERVICE, service("c", clusterIP=wanted))


def test_a_deleted_service_gives_its_address_back() -> None:
    store = Store()
    store.create(SERVICE, service("a", clusterIP="10.96.0.9"))
    store.delete(SERVICE, "default", "a")
    assert store.create(SERVICE, service("b", clusterIP="10.96.0.9"))["spec"]["clusterIPs"] == ["10.96.0.9"]


def test_a_replace_without_an_address_keeps_it() -> None:
    store = Store()
    before = store.create(SERVICE, service())["spec"]["clusterIP"]
    assert store.replace(SERVICE, service(selector={"a": "b"}))["spec"]["clusterIP"] == before


def test_an_address_never_changes() -> None:
    store = Store()
    store.create(SERVICE, service())
    with pytest.raises(ApiError, match="may not change once set"):
        store.merge(SERVICE, "default", "web", {"spec": {"clusterIP": "10.96.9.9"}})


def test_a_headless_service_has_no_address() -> None:
    spec = Store().create(SERVICE, service(clusterIP="None", selector={"a": "b"}))["spec"]
    assert spec["clusterIPs"] == ["None"]
    assert spec["ipFamilies"] == ["IPv4"]


def test_a_headless_service_without_a_selector_has_both_families() -> None:
    spec = Store().create(SERVICE, service(clusterIP="None"))["spec"]
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("RequireDualStack", ["IPv4", "IPv6"])


def test_the_policy_asked_for_is_kept() -> None:
    spec = Store().create(SERVICE, service(ipFamilyPolicy="PreferDualStack"))["spec"]
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("PreferDualStack", ["IPv4"])


def test_an_external_name_has_nothing_of_a_cluster_service() -> None:
    store = Store()
    store.create(SERVICE, service())
    patch = {"spec": {"type": "ExternalName", "externalName": "db.example.org"}}
    spec = store.merge(SERVICE, "default", "web", patch)["spec"]
    assert spec.keys() == {"type", "externalName", "sessionAffinity", "ports"}
    back = store.merge(SERVICE, "default", "web", {"spec": {"type": "ClusterIP", "externalName": None}})["spec"]
    assert back["clusterIP"].startswith("10.96.")


BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "tailscale"}
SHOWN = {"loadBalancer": {"ingress": [{"hostname": "web.example.org"}, {"ip": "100.64.0.1"}]}}


def test_an_address_of_a_load_balancer_gets_a_mode() -> None:
    store = Store()
    store.create(SERVICE, service(**BALANCED))
    status = store.merge(SERVICE, "default", "web", {"status": SHOWN}, "status")["status"]
    assert status["loadBalancer"]["ingress"] == [{"hostname": "web.example.org"}, {"ip": "100.64.0.1", "ipMode": "VIP"}]


def test_only_a_load_balancer_shows_addresses() -> None:
    store = Store()
    store.create(SERVICE, service())
    with pytest.raises(ApiError, match="LoadBalancer"):
        store.merge(SERVICE, "default", "web", {"status": SHOWN}, "status")


def test_what_a_load_balancer_showed_goes_with_its_type() -> None:
    store = Store()
    store.create(SERVICE, service(**BALANCED))
    store.merge(SERVICE, "default", "web", {"status": SHOWN}, "status")
    plain = store.merge(SERVICE, "default", "web", {"spec": {"type": "ClusterIP"}})
    assert (plain["status"]["loadBalancer"], "loadBalancerClass" in plain["spec"]) == ({}, False)


def test_the_class_of_a_load_balancer_never_changes() -> None:
    store = Store()
    store.create(SERVICE, service(**BALANCED))
    with pytest.raises(ApiError, match="may not change once set"):
        store.merge(SERVICE, "default", "web", {"spec": {"loadBalancerClass": "other"}})


def test_only_a_load_balancer_has_a_class() -> None:
    with pytest.raises(ApiError, match="may only be used"):
        Store().create(SERVICE, service(loadBalancerClass="tailscale"))


def test_an_external_name_goes_with_its_type() -> None:
    store = Store()
    store.create(SERVICE, service(type="ExternalName", externalName="db.example.org"))
    assert "externalName" not in store.merge(SERVICE, "default", "web", {"spec": {"type": "ClusterIP"}})["spec"]


def test_a_node_port_is_given_once_and_kept() -> None:
    store = Store()
    first = store.create(SERVICE, service("a", type="NodePort"))["spec"]["ports"][0]["nodePort"]
    second = store.create(SERVICE, service("b", type="LoadBalancer"))["spec"]["ports"][0]["nodePort"]
    assert 30000 <= first != second >= 30000
    assert store.replace(SERVICE, service("a", type="NodePort", selector={}))["spec"]["ports"][0]["nodePort"] == first
    with pytest.raises(ApiError, match="already allocated"):
        store.create(SERVICE, service("c", type="NodePort", ports=[{"port": 80, "nodePort": first}]))


def test_a_headless_service_has_the_families_of_the_cluster() -> None:
    store = Store(families=["IPv6"])
    spec = {"clusterIP": "None", "selector": {"app": "a"}, "ipFamilyPolicy": "PreferDualStack"}
    made = store.create(SERVICE, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
    assert made["spec"]["ipFamilies"] == ["IPv6"]
