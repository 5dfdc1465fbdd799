"""The Service and the ServiceMonitor by which Prometheus finds a proxy's metrics."""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.labels import label_value
from tsoperator.api.names import (
    LABEL_MANAGED,
    LABEL_METRICS_TARGET,
    LABEL_PROMETHEUS_JOB,
    LABEL_PROXY_PARENT_NAME,
    LABEL_PROXY_PARENT_NAMESPACE,
    LABEL_PROXY_TYPE,
    MANAGED,
    TYPE_INGRESS_RESOURCE,
    TYPE_INGRESS_SERVICE,
)
from tsoperator.api.objects import SERVICE, SERVICEMONITOR, Object, is_deleting, key_of, resource_of, uid
from tsoperator.proxy.proxy import Proxy
from tsoperator.runtime.given import with_given
from tsoperator.runtime.ownership import Owner, owner_reference

METRICS_PORT: Final = 9002
METRICS_PORT_NAME: Final = "metrics"


def metrics_objects(proxy: Proxy, there: Sequence[Object]) -> list[Object]:
    """Return the objects by which Prometheus finds the metrics of *proxy*.

    *there* has the existing objects. The result has the ServiceMonitor only if the Service exists already, because the
    Service is the owner in its owner reference.
    """
    metrics = proxy.proxy_class.metrics if proxy.proxy_class else None
    if metrics is None or not (metrics.enable and proxy.pod.measurable):
        return []
    labels = _labels(proxy.key.name, proxy.owner, proxy.pod.type)
    service = _service(proxy, labels)
    monitor = metrics.service_monitor
    live = next((obj for obj in there if resource_of(obj) == SERVICE and key_of(obj) == key_of(service)), None)
    if monitor is None or not monitor.enable or live is None or is_deleting(live):
        return [service]
    return [service, with_given(_service_monitor(live, labels), monitor.labels, {})]


def _labels(proxy: str, owner: Owner, kind: str) -> dict[str, str]:
    labels = {
        LABEL_MANAGED: MANAGED,
        LABEL_METRICS_TARGET: proxy,
        LABEL_PROXY_TYPE: kind,
        LABEL_PROXY_PARENT_NAME: label_value(owner.key.name),
    }
    job = ["ts", kind]
    if kind in (TYPE_INGRESS_RESOURCE, TYPE_INGRESS_SERVICE):
        labels[LABEL_PROXY_PARENT_NAMESPACE] = label_value(owner.key.namespace)
        job.append(owner.key.namespace)
    return labels | {LABEL_PROMETHEUS_JOB: label_value("_".join([*job, owner.key.name]))}


def _service(proxy: Proxy, labels: dict[str, str]) -> Object:
    port = {"name": METRICS_PORT_NAME, "port": METRICS_PORT, "protocol": "TCP"}
    spec = {"type": "ClusterIP", "selector": proxy.owner.labels, "ports": [port]}
    made = proxy.child(SERVICE, f"{proxy.key.name}-metrics", {"spec": spec})
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def _service_monitor(service: Object, labels: dict[str, str]) -> Object:
    key = key_of(service)
    return {
        "apiVersion": SERVICEMONITOR.api_version,
        "kind": SERVICEMONITOR.kind,
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": labels,
            "ownerReferences": [owner_reference(SERVICE, key.name, uid(service))],
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "endpoints": [{"port": METRICS_PORT_NAME}],
            "namespaceSelector": {"matchNames": [key.namespace]},
            "jobLabel": LABEL_PROMETHEUS_JOB,
            "targetLabels": [LABEL_PROXY_PARENT_NAME, LABEL_PROXY_PARENT_NAMESPACE, LABEL_PROXY_TYPE],
        },
    }
