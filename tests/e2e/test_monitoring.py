"""ServiceMonitors: if the cluster has this kind, each proxy whose ProxyClass asks for a ServiceMonitor gets one."""

from collections.abc import Iterator

import pytest
from tsoperator.api.names import LABEL_MANAGED

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service
from tests.support.manifests import proxy_class

CLASS = "monitored"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANYTHING}}],
    },
}


def monitoring(release: str) -> Object:
    """Return a class that asks for ServiceMonitors with the label of the Prometheus called *release*."""
    monitor = {"enable": True, "labels": {"release": release}}
    return proxy_class(CLASS, metrics={"enable": True, "serviceMonitor": monitor})


@pytest.fixture(scope="module")
def monitored(cluster: Cluster, shared_namespace: str) -> Iterator[Object]:
    """A Service whose proxy has a class that asks for ServiceMonitors."""
    name = CRD["metadata"]["name"]
    cluster.apply(CRD)
    cluster.bed.kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=20s")
    service = exposed_service(shared_namespace, "lb", BALANCED, proxy_class=CLASS)
    cluster.apply(monitoring("first"), service)
    yield service
    cluster.delete("proxyclass", CLASS)
    cluster.delete("crd", name)


def monitors(cluster: Cluster, service: Object) -> list[tuple[str, str]]:
    """Return the ServiceMonitors for a Service's proxy, as pairs: the name, and the Prometheus that reads it."""
    namespace = service["metadata"]["namespace"]
    found = [obj["metadata"] for obj in cluster.listed("servicemonitors", NAMESPACE)]
    ours = [each for each in found if each["labels"].get("ts_proxy_parent_namespace") == namespace]
    return [(each["name"], each["labels"].get("release", "")) for each in ours]


def test_the_operator_restores_a_label_that_somebody_removed_from_a_servicemonitor(
    cluster: Cluster, monitored: Object
) -> None:
    ((name, _),) = eventually(lambda: monitors(cluster, monitored), "the ServiceMonitor")
    cluster.bed.kubectl("-n", NAMESPACE, "label", "servicemonitor", name, f"{LABEL_MANAGED}-")

    def is_ours() -> bool:
        monitor = cluster.get("servicemonitor", name, NAMESPACE)
        return bool(monitor and monitor["metadata"]["labels"].get(LABEL_MANAGED))

    eventually(is_ours, f"{LABEL_MANAGED} on it")


def test_a_servicemonitor_changes_with_its_proxyclass_and_is_deleted_if_the_class_asks_for_none(
    cluster: Cluster, monitored: Object
) -> None:
    (statefulset,) = eventually(lambda: cluster.children(monitored, "statefulsets"), "its StatefulSet")
    name = f"{statefulset['metadata']['name']}-metrics"
    eventually(lambda: monitors(cluster, monitored) == [(name, "first")], f"ServiceMonitor {name}")
    cluster.apply(monitoring("second"))
    eventually(lambda: monitors(cluster, monitored) == [(name, "second")], "the class's other label on it")
    cluster.apply(proxy_class(CLASS, metrics={"enable": True}))
    eventually(lambda: not monitors(cluster, monitored), "it is gone")
