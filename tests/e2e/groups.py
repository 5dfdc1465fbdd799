"""Waits for ProxyGroups, and reads the objects that make their proxies serve a Service."""

import base64
import json

from tsoperator.api.names import CONDITION_EGRESS_READY, CONDITION_PROXYGROUP_READY, EGRESS_SERVICES, PROXY_GROUP
from tsoperator.group.grouptype import EGRESS

from tests.e2e.cluster import Cluster, Object, condition, is_ready
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.management import Management
from tests.e2e.waiting import eventually

ALL_READY = "ReadyToRouteTraffic"


def await_group(cluster: Cluster, group: Object, replicas: int, seconds: float = 180) -> list[Object]:
    """Wait until a ProxyGroup is ready with *replicas* Pods of its newest template, and return these Pods."""
    name = group["metadata"]["name"]

    def settled() -> list[Object]:
        pods = cluster.children(group, "pods")
        assert len(pods) == replicas, [pod["metadata"]["name"] for pod in pods]
        assert all(is_ready(pod) for pod in pods), [pod["status"].get("conditions") for pod in pods]
        (statefulset,) = cluster.children(group, "statefulsets")
        status = statefulset["status"]
        assert status["observedGeneration"] == statefulset["metadata"]["generation"], status
        assert status.get("updatedReplicas", 0) == replicas, status
        found = condition(cluster.look(group), CONDITION_PROXYGROUP_READY)
        assert found.get("status") == "True", found
        return pods

    return eventually(settled, f"{name} with {replicas} proxies", seconds)


def await_served(cluster: Cluster, service: Object, seconds: float = 120) -> None:
    """Wait until all proxies of a Service's group serve the Service."""

    def served() -> bool:
        found = condition(cluster.look(service), CONDITION_EGRESS_READY)
        assert found.get("reason") == ALL_READY, found
        return True

    eventually(served, f"{service['metadata']['name']} served by all proxies", seconds)


def entries(cluster: Cluster, group: str) -> list[str]:
    """Return the names of the entries in the egress ConfigMap of *group*."""
    configmap = cluster.get("configmap", EGRESS.config_name(group), NAMESPACE) or {}
    encoded = (configmap.get("binaryData") or {}).get(EGRESS_SERVICES, "")
    return sorted(json.loads(base64.b64decode(encoded) or "{}"))


def serving(cluster: Cluster, service: Object) -> list[str]:
    """Return the group of each ClusterIP Service and each EndpointSlice that the operator has made for *service*."""
    found = cluster.children(service, "services,endpointslices")
    return sorted(obj["metadata"]["labels"].get(PROXY_GROUP, "") for obj in found)


def devices(management: Management, prefix: str) -> list[str]:
    """Return the first label of each device's MagicDNS name, if the label begins with *prefix*."""
    names = (device["name"].partition(".")[0] for device in management.devices())
    return sorted(name for name in names if name.startswith(prefix))
