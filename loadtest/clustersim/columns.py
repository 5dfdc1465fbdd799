"""The columns that kubectl shows for each kind: Kubernetes' own, and those in CustomResourceDefinitions."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from clustersim.objects import (
    CONFIGMAP,
    CRD,
    DEPLOYMENT,
    ENDPOINTSLICE,
    EVENT,
    INGRESS,
    INGRESSCLASS,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    ROLEBINDING,
    SECRET,
    SERVICE,
    STATEFULSET,
    Object,
    Resource,
    name_of,
)
from clustersim.pods import is_ready

_FILTER = re.compile(r'\?\(@\.(?P<field>\w+)\s*(?P<sign>[=!]=)\s*["\'](?P<value>[^"\']*)["\']\)')
_STEP = re.compile(r"\.(?P<field>[\w-]+|\*)|\[(?P<inner>[^\]]*)\]|\.?\['(?P<quoted>[^']*)'\]")
_NONE = "<none>"


class Column(NamedTuple):
    """A column of the table that kubectl shows for a kind. *cell* returns the value in an object's row.

    kubectl shows a *wide* column only with ``-o wide``.
    """

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    wide: bool = False
    description: str = ""


def columns(resource: Resource, definition: Object | None) -> list[Column]:
    """Return the columns of *resource*; *definition* is the CustomResourceDefinition of a custom kind."""
    head = Column("Name", lambda obj, _: name_of(obj))
    if definition is not None:
        version = next(each for each in definition["spec"]["versions"] if each["name"] == resource.version)
        shown = version.get("additionalPrinterColumns")
        return [head, *(map(_custom, shown) if shown else (_AGE,))]
    if resource in _WITHOUT_NAME:
        return [*_OWN[resource]]
    return [head, *_OWN.get(resource, (_AGE,))]


def age(since: str, now: datetime) -> str:
    """Return the time from *since*, in RFC 3339, to *now* in kubectl's words, such as ``3m5s``."""
    if not since:
        return "<unknown>"
    seconds = max(int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()), 0)
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m" + (f"{seconds % 60}s" if seconds % 60 else "")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    return f"{days}d" + (f"{hours % 24}h" if days < 8 and hours % 24 else "")


def at_path(path: str, obj: Object) -> list[Any]:
    """Return the values in *obj* at a JSONPath of a CustomResourceDefinition, such as ``.status.url``."""
    values: list[Any] = [obj]
    for step in _STEP.finditer(path):
        values = [found for value in values for found in _step(step, value)]
    return [value for value in values if value is not None]


def _step(step: re.Match[str], value: Any) -> Iterable[Any]:
    inner = step["inner"]
    if inner is None or inner[:1] in ("'", '"'):
        name = step["field"] or step["quoted"] or str(inner).strip("'\"")
        if name == "*":
            return value.values() if isinstance(value, dict) else value or ()
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return []
    if inner == "*":
        return value
    if match := _FILTER.fullmatch(inner):
        known = [each for each in value if match["field"] in each]
        return [each for each in known if (str(each[match["field"]]) == match["value"]) is (match["sign"] == "==")]
    number = int(inner)
    return value[number : number + 1] if number >= 0 else value[number:][:1]


def _custom(column: Object) -> Column:
    path, is_date = column["jsonPath"], column["type"] == "date"

    def cell(obj: Object, now: datetime) -> Any:
        values = at_path(path, obj)
        if is_date:
            return age(values[0], now) if values else None
        if column["type"] in ("integer", "number", "boolean") and values:
            return values[0]
        return _text(values[0]) if values else None  # the API server, too, shows only the first value

    kind = "string" if is_date else column["type"]
    return Column(column["name"], cell, kind, column.get("priority", 0) > 0, column.get("description", ""))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def _wide(name: str, cell: Callable[[Object], Any]) -> Column:
    return Column(name, lambda obj, _: cell(obj), wide=True)


def _shown(name: str, cell: Callable[[Object], Any], kind: str = "string") -> Column:
    return Column(name, lambda obj, _: cell(obj), kind)


def _status(obj: Object) -> Object:
    status: Object = obj.get("status") or {}
    return status


def _statuses(pod: Object) -> list[Object]:
    found: list[Object] = _status(pod).get("containerStatuses") or []
    return found


def _pod_status(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    waits = (each["state"]["waiting"]["reason"] for each in _statuses(pod) if "waiting" in each.get("state", {}))
    return next(waits, None) or str(_status(pod).get("phase", "Pending"))


def _containers(pod_spec: Object) -> list[Object]:
    containers: list[Object] = pod_spec.get("containers") or []
    return containers


def _template(obj: Object) -> Object:
    spec: Object = obj["spec"]["template"]["spec"]
    return spec


def _pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in (labels or {}).items()) or _NONE


def _ports(service: Object) -> str:
    found = []
    for port in service["spec"].get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        found.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(found) or _NONE


def _external(service: Object) -> str:
    spec, balanced = service["spec"], _status(service).get("loadBalancer", {}).get("ingress") or ()
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", _NONE))
    if spec.get("type") == "LoadBalancer":
        return ",".join(each.get("ip") or each.get("hostname", "") for each in balanced) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or _NONE


def _hosts(ingress: Object) -> str:
    return ",".join(rule["host"] for rule in ingress["spec"].get("rules") or () if rule.get("host")) or "*"


def _address(ingress: Object) -> str:
    found = _status(ingress).get("loadBalancer", {}).get("ingress") or ()
    return ",".join(each.get("hostname") or each.get("ip", "") for each in found)


def _endpoints(item: Object) -> str:
    found = [address for each in item.get("endpoints") or () for address in each["addresses"]]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") if found else "<unset>"


def _target(event: Object) -> str:
    about = event["involvedObject"]
    return f"{about['kind'].lower()}/{about['name']}"


def _last_seen(event: Object, now: datetime) -> str:
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return age(last or event["metadata"]["creationTimestamp"], now)


def _ready_of(obj: Object) -> str:
    return f"{_status(obj).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 1)}"


_AGE = Column("Age", lambda obj, now: age(obj["metadata"].get("creationTimestamp", ""), now))
_CREATED = _shown("Created At", lambda obj: obj["metadata"]["creationTimestamp"], "date")
_OF_TEMPLATE = (
    _wide("Containers", lambda obj: ",".join(each["name"] for each in _containers(_template(obj)))),
    _wide("Images", lambda obj: ",".join(each.get("image", "") for each in _containers(_template(obj)))),
)
_OWN: dict[Resource, tuple[Column, ...]] = {
    POD: (
        _shown(
            "Ready",
            lambda pod: f"{sum(each['ready'] for each in _statuses(pod))}/{len(_containers(pod['spec']))}",
        ),
        _shown("Status", _pod_status),
        _shown("Restarts", lambda pod: str(sum(each["restartCount"] for each in _statuses(pod)))),
        _AGE,
        _wide("IP", lambda pod: _status(pod).get("podIP", _NONE)),
        _wide("Node", lambda pod: pod["spec"].get("nodeName", _NONE)),
    ),
    SERVICE: (
        _shown("Type", lambda service: service["spec"].get("type", "ClusterIP")),
        _shown("Cluster-IP", lambda service: service["spec"].get("clusterIP") or _NONE),
        _shown("External-IP", _external),
        _shown("Port(s)", _ports),
        _AGE,
        _wide("Selector", lambda service: _pairs(service["spec"].get("selector"))),
    ),
    DEPLOYMENT: (
        _shown("Ready", _ready_of),
        _shown("Up-to-date", lambda obj: _status(obj).get("updatedReplicas", 0), "integer"),
        _shown("Available", lambda obj: _status(obj).get("availableReplicas", 0), "integer"),
        _AGE,
        *_OF_TEMPLATE,
    ),
    STATEFULSET: (_shown("Ready", _ready_of), _AGE, *_OF_TEMPLATE),
    CONFIGMAP: (
        _shown("Data", lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), "integer"),
        _AGE,
    ),
    SECRET: (
        _shown("Type", lambda obj: obj.get("type", "Opaque")),
        _shown("Data", lambda obj: len(obj.get("data") or {}), "integer"),
        _AGE,
    ),
    NAMESPACE: (_shown("Status", lambda obj: _status(obj).get("phase", "Active")), _AGE),
    NODE: (
        _shown("Status", lambda obj: "Ready" if is_ready(obj) else "NotReady"),
        _shown("Roles", lambda _: _NONE),
        _AGE,
        _wide("Internal-IP", lambda obj: _status(obj)["addresses"][0]["address"]),
    ),
    EVENT: (
        Column("Last Seen", _last_seen),
        _shown("Type", lambda event: event.get("type", "Normal")),
        _shown("Reason", lambda event: event.get("reason", "")),
        _shown("Object", _target),
        _shown("Message", lambda event: event.get("message", "").strip()),
    ),
    ENDPOINTSLICE: (
        _shown("AddressType", lambda obj: obj["addressType"]),
        _shown("Ports", lambda obj: ",".join(str(each.get("port")) for each in obj.get("ports") or ()) or "<unset>"),
        _shown("Endpoints", _endpoints),
        _AGE,
    ),
    INGRESS: (
        _shown("Class", lambda obj: obj["spec"].get("ingressClassName") or _NONE),
        _shown("Hosts", _hosts),
        _shown("Address", _address),
        _shown("Ports", lambda obj: "80, 443" if obj["spec"].get("tls") else "80"),
        _AGE,
    ),
    INGRESSCLASS: (
        _shown("Controller", lambda obj: obj["spec"]["controller"]),
        _shown("Parameters", lambda _: _NONE),
        _AGE,
    ),
    LEASE: (_shown("Holder", lambda obj: obj["spec"].get("holderIdentity", "")), _AGE),
    ROLEBINDING: (_shown("Role", lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"), _AGE),
    CRD: (_CREATED,),
}
_WITHOUT_NAME = (EVENT,)
