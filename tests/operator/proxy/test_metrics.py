"""The Service and the ServiceMonitor by which Prometheus finds a proxy's metrics."""

import pytest
from tsoperator.api.names import ANNOTATION_GIVEN
from tsoperator.api.objects import SERVICE, Key, Object, annotations, labels
from tsoperator.api.v1alpha1.proxyclass import Metrics, ProxyClassSpec
from tsoperator.proxy.metrics import metrics_objects
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import (
    ProxyPod,
    connected_networks,
    egress_group,
    egress_to_ip,
    egress_to_name,
    exposed_ip,
    exposed_name,
    served_ingress,
    served_service,
)
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner, by_metrics_owner, is_child, owned_keys, owner_reference

from tests.support.objects import deleting, stored

KEY = Key("tailscale", "ts-web-abcde")
OWNER = Owner("ingress", Key("default", "web"))
INGRESS = served_ingress(forward_cluster_traffic=False)
LABELS = {
    "tailscale.com/managed": "true",
    "tailscale.com/metrics-target": "ts-web-abcde",
    "ts_proxy_type": "ingress_resource",
    "ts_proxy_parent_name": "web",
    "ts_proxy_parent_namespace": "default",
    "ts_prom_job": "ts_ingress_resource_default_web",
}


def metrics(*, monitor: bool | None = None, **monitor_labels: str) -> Metrics:
    given = {} if monitor is None else {"serviceMonitor": {"enable": monitor, "labels": monitor_labels}}
    return Metrics.model_validate({"enable": True, **given})


def objects_for(wanted: Metrics | None, *there: Object, pod: ProxyPod = INGRESS, owner: Owner = OWNER) -> list[Object]:
    config = ProxyConfig("web", "https://controlplane.tailscale.com")
    proxy = Proxy(owner, "1234-UID", KEY, pod, config, (), proxy_class=ProxyClassSpec(metrics=wanted))
    return metrics_objects(proxy, there)


def service() -> Object:
    (only,) = objects_for(metrics())
    return stored(only)


def test_a_service_monitor_is_owned_by_the_metrics_service() -> None:
    first, monitor = objects_for(metrics(monitor=True), service())
    owner = owner_reference(SERVICE, "ts-web-abcde-metrics", service()["metadata"]["uid"])
    assert first["kind"] == "Service"
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "ServiceMonitor")
    named = {"namespace": "tailscale", "name": "ts-web-abcde-metrics"}
    assert monitor["metadata"] == {**named, "labels": LABELS, "ownerReferences": [owner]}
    assert monitor["spec"] == {
        "selector": {"matchLabels": LABELS},
        "endpoints": [{"port": "metrics"}],
        "namespaceSelector": {"matchNames": ["tailscale"]},
        "jobLabel": "ts_prom_job",
        "targetLabels": ["ts_proxy_parent_name", "ts_proxy_parent_namespace", "ts_proxy_type"],
    }


def test_a_service_monitor_has_the_labels_of_its_class_except_those_that_would_replace_ours() -> None:
    _, monitor = objects_for(metrics(monitor=True, release="prometheus", ts_proxy_type="other"), service())
    assert labels(monitor) == {**LABELS, "release": "prometheus"}
    assert monitor["spec"]["selector"] == {"matchLabels": LABELS}
    assert annotations(monitor) == {ANNOTATION_GIVEN: "labels.release"}


@pytest.mark.parametrize(("monitor", "there"), [(True, []), (True, [deleting(service())]), (False, [service()])])
def test_without_a_service_monitor_there_is_only_a_metrics_service(monitor: bool, there: list[Object]) -> None:
    assert [obj["kind"] for obj in objects_for(metrics(monitor=monitor), *there)] == ["Service"]


@pytest.mark.parametrize(
    ("wanted", "pod"),
    [
        (None, INGRESS),
        (Metrics(enable=False), INGRESS),
        (metrics(), egress_to_name("db.tail1234.ts.net.")),
        (metrics(), egress_to_ip("100.64.0.9")),
        (metrics(), served_ingress(forward_cluster_traffic=True)),
    ],
)
def test_a_proxy_that_serves_no_metrics_has_no_metrics_service(wanted: Metrics | None, pod: ProxyPod) -> None:
    assert objects_for(wanted, service(), pod=pod) == []


EXPOSED = ("ingress_service", "ts_ingress_service_default_web")
TYPES = [
    (exposed_ip("192.0.2.4"), EXPOSED),
    (exposed_name("db.example.org"), EXPOSED),
    (served_service(), EXPOSED),
    (connected_networks(), ("connector", "ts_connector_web")),
]


@pytest.mark.parametrize(("pod", "wanted"), TYPES)
def test_the_labels_of_a_metrics_service_have_the_type_and_the_job_name_for_its_kind_of_proxy(
    pod: ProxyPod, wanted: tuple[str, str]
) -> None:
    found = labels(objects_for(metrics(), pod=pod)[0])
    assert (found["ts_proxy_type"], found["ts_prom_job"]) == wanted


def test_a_metrics_label_has_at_most_the_first_63_characters_of_a_name() -> None:
    long = Owner("ingress", Key("n" * 64, "p" * 64))
    found = labels(objects_for(metrics(), owner=long)[0])
    assert {len(found[name]) for name in ("ts_proxy_parent_name", "ts_proxy_parent_namespace", "ts_prom_job")} == {63}
    assert found["ts_prom_job"].startswith("ts_ingress_resource_nnn")


def test_a_metrics_service_is_found_by_its_parent() -> None:
    assert by_metrics_owner(service()) == (str(OWNER),)
    assert is_child(service(), "tailscale")
    assert owned_keys(service(), "ingress", "tailscale") == (Key("default", "web"),)
    assert owned_keys(service(), "svc", "tailscale") == ()


def test_the_metrics_service_of_an_egress_or_an_exposed_service_is_found_by_that_service() -> None:
    given = ({**LABELS, "ts_proxy_type": kind} for kind in ("egress_service", "ingress_service"))
    assert [by_metrics_owner({"metadata": {"labels": each}}) for each in given] == [("svc:default/web",)] * 2


@pytest.mark.parametrize("changed", [{"tailscale.com/managed": "no"}, {"ts_proxy_type": "other"}])
def test_a_service_of_a_user_is_not_taken_for_a_metrics_service(changed: Object) -> None:
    obj = {"metadata": {"namespace": "tailscale", "name": "web", "labels": {**LABELS, **changed}}}
    assert by_metrics_owner(obj) == ()
    assert not is_child(obj, "tailscale")


def test_the_metrics_of_a_proxygroup_have_no_namespace() -> None:
    group = Owner("proxygroup", Key("", "foo"))
    (made,) = objects_for(metrics(), pod=egress_group(), owner=group)
    assert labels(made) == {
        "tailscale.com/managed": "true",
        "tailscale.com/metrics-target": KEY.name,
        "ts_proxy_type": "proxygroup",
        "ts_proxy_parent_name": "foo",
        "ts_prom_job": "ts_proxygroup_foo",
    }
    assert (made["metadata"]["name"], made["spec"]["selector"]) == (f"{KEY.name}-metrics", group.labels)
    assert list(owned_keys(stored(made), "proxygroup", "tailscale")) == [Key("", "foo")]
