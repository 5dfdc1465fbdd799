"""The EndpointSlice controller: it makes one slice per address family for each Service that selects Pods."""

from collections.abc import Iterable
from ipaddress import ip_address

from clustersim.controller import Key, follow, key_of
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE, Object, Resource
from clustersim.pods import is_deleting, is_ready, owner_reference, selects
from clustersim.store import Store

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"
MANAGED_BY = "endpointslice-controller.k8s.io"
VERSIONS = {"IPv4": 4, "IPv6": 6}


async def run(store: Store) -> None:
    """Write the EndpointSlices of all Services whenever Services or Pods change, until cancelled."""
    controller = Endpoints(store)
    await follow(store, (SERVICE, POD, ENDPOINTSLICE), controller.keys, controller.reconcile)


class Endpoints:
    """Reconciles the EndpointSlices of Services, one Service at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keys(self, resource: Resource, obj: Object) -> Iterable[Key]:
        """Return the keys of the Services whose slices depend on *obj*."""
        namespace = obj["metadata"].get("namespace", "")
        if resource is SERVICE:
            return [key_of(obj)]
        if resource is ENDPOINTSLICE:
            labels = obj["metadata"].get("labels", {})
            return [Key(namespace, labels[SERVICE_NAME_LABEL])] if labels.get(MANAGED_BY_LABEL) == MANAGED_BY else []
        services = self._store.list(SERVICE, namespace)
        return [key_of(service) for service in services if _selector(service) and selects(_selector(service), obj)]

    def reconcile(self, key: Key) -> None:
        """Make the slices match the Pods that the Service named *key* selects."""
        service = self._store.find(SERVICE, *key)
        if service is None or not _selector(service):
            return
        pods = sorted(self._store.list(POD, key.namespace, _selector(service)), key=lambda pod: str(key_of(pod).name))
        managed = {SERVICE_NAME_LABEL: key.name, MANAGED_BY_LABEL: MANAGED_BY}
        slices = {item["addressType"]: item for item in self._store.list(ENDPOINTSLICE, key.namespace, managed)}
        families = service["spec"].get("ipFamilies", ["IPv4"])
        for family in families:
            self._write(_slice(service, family, pods), slices.get(family))
        for family in slices.keys() - set(families):
            self._store.delete(ENDPOINTSLICE, *key_of(slices[family]))

    def _write(self, desired: Object, existing: Object | None) -> None:
        if existing is None:
            self._store.create(ENDPOINTSLICE, desired)
            return
        metadata = {**existing["metadata"], "labels": desired["metadata"]["labels"]}
        self._store.replace(ENDPOINTSLICE, {**existing, **desired, "metadata": metadata})


def _selector(service: Object) -> dict[str, str]:
    """Return the labels by which the Service selects Pods, or {} if this controller makes no slices for the Service."""
    spec = service["spec"]
    return {} if spec.get("type") == "ExternalName" else spec.get("selector") or {}


def _slice(service: Object, family: str, pods: list[Object]) -> Object:
    """Return the Service's slice for *family*; in place of an empty list it has null, as on a real API server."""
    metadata = service["metadata"]
    labels = {key: value for key, value in metadata.get("labels", {}).items() if key != HEADLESS_LABEL}
    if service["spec"].get("clusterIP") == "None":
        labels[HEADLESS_LABEL] = ""
    labels |= {SERVICE_NAME_LABEL: metadata["name"], MANAGED_BY_LABEL: MANAGED_BY}
    endpoints = [
        _endpoint(service, pod, address) for pod in pods for address in _addresses(pod, family)[:1] if _is_running(pod)
    ]
    return {
        "apiVersion": ENDPOINTSLICE.api_version,
        "kind": ENDPOINTSLICE.kind,
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(service, SERVICE)],
        },
        "addressType": family,
        "endpoints": endpoints or None,
        "ports": _ports(service) or None,
    }


def _addresses(pod: Object, family: str) -> list[str]:
    entries = pod.get("status", {}).get("podIPs", ())
    return [entry["ip"] for entry in entries if ip_address(entry["ip"]).version == VERSIONS[family]]


def _is_running(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _endpoint(service: Object, pod: Object, address: str) -> Object:
    metadata, spec = pod["metadata"], pod["spec"]
    serving = is_ready(pod) or service["spec"].get("publishNotReadyAddresses", False)
    terminating = is_deleting(pod)
    endpoint = {
        "addresses": [address],
        "conditions": {"ready": serving and not terminating, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        endpoint["nodeName"] = spec["nodeName"]
    return endpoint


def _ports(service: Object) -> list[Object]:
    """Return the ports of Pods to which the Service's ports lead.

    Ports whose ``targetPort`` is the name of a Pod's port are left out.
    """
    ports = (port for port in service["spec"].get("ports", ()) if isinstance(port["targetPort"], int))
    return [{"name": port.get("name", ""), "port": port["targetPort"], "protocol": port["protocol"]} for port in ports]
