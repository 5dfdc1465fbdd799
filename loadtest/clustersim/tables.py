"""Tables as ``kubectl get`` prints them: the columns of each kind, and the cells of an object."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from clustersim.objects import (
    CONFIGMAP,
    CONNECTOR,
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    EVENT,
    INGRESS,
    INGRESSCLASS,
    LEASE,
    NAMESPACE,
    NODE,
    PEERRELAY,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    RECORDER,
    REPLICASET,
    ROLEBINDING,
    SECRET,
    SERVICE,
    STATEFULSET,
    TAILNET,
    Object,
    Resource,
    labels_of,
    name_of,
)


class Column(NamedTuple):
    """A column; one with *wide* shows with ``-o wide`` only."""

    name: str
    cell: Callable[[Object], Any]
    wide: bool = False


def table(resource: Resource, objects: Sequence[Object], metadata: Object, include: str = "Metadata") -> Object:
    """Return *objects* as a Table; *include* says what of each object comes with its row: Object, Metadata, None."""
    columns = _COLUMNS.get(resource, (_NAME, _AGE))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(columns, obj, include) for obj in objects],
    }


def duration(seconds: float) -> str:
    """Return a time span as kubectl shows it: 95s, 7m30s, 3h, 2d4h."""
    seconds = max(0, int(seconds))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{hours % 24}h" if days < 8 and hours % 24 else f"{days}d"


def _definition(column: Column) -> Object:
    kind = "name" if column.name == "Name" else ""
    return {"name": column.name, "type": "string", "format": kind, "description": "", "priority": int(column.wide)}


def _row(columns: Sequence[Column], obj: Object, include: str) -> Object:
    row: Object = {"cells": [column.cell(obj) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return row


def _since(timestamp: str | None) -> str:
    if not timestamp:
        return "<unknown>"
    return duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())


def _age(obj: Object) -> str:
    return _since(obj["metadata"].get("creationTimestamp"))


_NAME = Column("Name", name_of)
_AGE = Column("Age", _age)


def _at(*path: str, absent: Any = "") -> Callable[[Object], Any]:
    """Return a cell that shows the field at *path*."""

    def cell(obj: Object) -> Any:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return absent if value is None else value

    return cell


def _reason(condition: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        conditions = obj.get("status", {}).get("conditions") or ()
        return next((each.get("reason", "") for each in conditions if each["type"] == condition), "")

    return cell


def _joined(values: Sequence[Any]) -> str:
    return ",".join(map(str, values)) or "<none>"


def _address(obj: Object) -> str:
    points = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return ",".join(point.get("ip") or point.get("hostname", "") for point in points)


def _external_ip(service: Object) -> str:
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", "<none>"))
    if spec["type"] == "LoadBalancer":
        return _address(service) or "<pending>"
    return _joined(spec.get("externalIPs") or ())


def _service_port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if "nodePort" in port else ""
    return f"{port['port']}{node_port}/{port['protocol']}"


def _selector(obj: Object) -> str:
    selector = obj["spec"].get("selector") or {}
    return _joined([f"{key}={value}" for key, value in selector.get("matchLabels", selector).items()])


def _pod_containers(pod: Object) -> Sequence[Object]:
    return pod.get("status", {}).get("containerStatuses") or ()


def _pod_ready(pod: Object) -> str:
    ready = sum(bool(container.get("ready")) for container in _pod_containers(pod))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for container in _pod_containers(pod):
        state = container.get("state") or {}
        waiting = state.get("waiting") or state.get("terminated") or {}
        if waiting.get("reason"):
            return str(waiting["reason"])
    return str(pod.get("status", {}).get("phase", "Unknown"))


def _restarts(pod: Object) -> str:
    return str(sum(container.get("restartCount", 0) for container in _pod_containers(pod)))


def _replicas(obj: Object) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj['spec']['replicas']}"


def _containers(field: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        return _joined([each.get(field, "") for each in obj["spec"]["template"]["spec"].get("containers") or ()])

    return cell


def _hosts(ingress: Object) -> str:
    hosts = [rule["host"] for rule in ingress["spec"].get("rules") or () if rule.get("host")]
    return ",".join(hosts) or "*"


def _slice_ports(obj: Object) -> str:
    return ",".join(str(port.get("port", "*")) for port in obj.get("ports") or ()) or "<unset>"


def _slice_endpoints(obj: Object) -> str:
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    more = f" + {len(addresses) - 3} more..." if len(addresses) > 3 else ""
    return (",".join(addresses[:3]) or "<unset>") + more


def _data(obj: Object) -> str:
    return str(len(obj.get("data") or {}) + len(obj.get("binaryData") or {}))


def _node_status(node: Object) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    ready = next((each["status"] for each in conditions if each["type"] == "Ready"), "Unknown")
    return {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")


def _node_roles(node: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    return _joined(sorted(key.removeprefix(prefix) for key in labels_of(node) if key.startswith(prefix)))


def _involved(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _last_seen(event: Object) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return _since(next(filter(None, times), event["metadata"].get("creationTimestamp")))


def _role(binding: Object) -> str:
    return f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}"


_IMAGES = (Column("Containers", _containers("name"), wide=True), Column("Images", _containers("image"), wide=True))
_SELECTOR = Column("Selector", _selector, wide=True)

_COLUMNS: dict[Resource, tuple[Column, ...]] = {
    SERVICE: (
        _NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP", absent="<none>")),
        Column("External-IP", _external_ip),
        Column(
            "Port(s)", lambda service: _joined([_service_port(port) for port in service["spec"].get("ports") or ()])
        ),
        _AGE,
        _SELECTOR,
    ),
    POD: (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        Column("IP", _at("status", "podIP", absent="<none>"), wide=True),
        Column("Node", _at("spec", "nodeName", absent="<none>"), wide=True),
    ),
    STATEFULSET: (_NAME, Column("Ready", _replicas), _AGE, *_IMAGES),
    DEPLOYMENT: (
        _NAME,
        Column("Ready", _replicas),
        Column("Up-to-date", _at("status", "updatedReplicas", absent=0)),
        Column("Available", _at("status", "availableReplicas", absent=0)),
        _AGE,
        *_IMAGES,
        _SELECTOR,
    ),
    REPLICASET: (
        _NAME,
        Column("Desired", _at("spec", "replicas")),
        Column("Current", _at("status", "replicas", absent=0)),
        Column("Ready", _at("status", "readyReplicas", absent=0)),
        _AGE,
    ),
    INGRESS: (
        _NAME,
        Column("Class", _at("spec", "ingressClassName", absent="<none>")),
        Column("Hosts", _hosts),
        Column("Address", _address),
        Column("Ports", lambda ingress: "80, 443" if ingress["spec"].get("tls") else "80"),
        _AGE,
    ),
    CONFIGMAP: (_NAME, Column("Data", _data), _AGE),
    SECRET: (_NAME, Column("Type", _at("type")), Column("Data", _data), _AGE),
    ENDPOINTSLICE: (
        _NAME,
        Column("AddressType", _at("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_endpoints),
        _AGE,
    ),
    NAMESPACE: (_NAME, Column("Status", _at("status", "phase")), _AGE),
    NODE: (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
    ),
    EVENT: (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _involved),
        Column("Message", lambda event: str(event.get("message", "")).strip()),
        Column("Name", name_of, wide=True),
    ),
    INGRESSCLASS: (_NAME, Column("Controller", _at("spec", "controller")), _AGE),
    LEASE: (_NAME, Column("Holder", _at("spec", "holderIdentity")), _AGE),
    ROLEBINDING: (_NAME, Column("Role", _role), _AGE),
    CONNECTOR: (
        _NAME,
        Column("SubnetRoutes", _at("status", "subnetRoutes")),
        Column("IsExitNode", _at("status", "isExitNode")),
        Column("IsAppConnector", _at("status", "isAppConnector")),
        Column("Status", _reason("ConnectorReady")),
        _AGE,
    ),
    DNSCONFIG: (_NAME, Column("NameserverIP", _at("status", "nameserver", "ip")), _AGE),
    PEERRELAY: (_NAME, _AGE, Column("Status", _reason("PeerRelayReady"))),
    PROXYCLASS: (_NAME, Column("Status", _reason("ProxyClassReady")), _AGE),
    PROXYGROUP: (
        _NAME,
        Column("Status", _reason("ProxyGroupReady")),
        Column("URL", _at("status", "url")),
        Column("Type", _at("spec", "type")),
        _AGE,
    ),
    RECORDER: (_NAME, Column("Status", _reason("RecorderReady")), _AGE),
    TAILNET: (_NAME, _AGE, Column("Status", _reason("TailnetReady"))),
}
