"""Decides what a Connector needs (standalone-proxies.md 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_CONNECTOR_READY, FINALIZER, PARENT_CONNECTOR
from tsoperator.api.objects import Key, Object, has_finalizer
from tsoperator.api.v1alpha1.connector import Connector, ConnectorSpec
from tsoperator.desired.children import Owner
from tsoperator.desired.classref import accepts_routes, class_problem, class_spec, is_changing
from tsoperator.desired.findings import Effect
from tsoperator.desired.plan import Note, Plan
from tsoperator.desired.proxy import Children, Proxy, plan_proxy, plan_removal, proxy_problem, replica_devices
from tsoperator.desired.secret import ReportedDevice
from tsoperator.desired.statefulset import ConnectNetworks
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.reconcilers.connector.routes import advertised, default_route_error, route_error
from tsoperator.settings import Settings

CREATED = "ConnectorCreated"
CREATING = "ConnectorCreating"
FAILED = "ConnectorCreationFailed"
INVALID = "ConnectorInvalid"
DEVICE_REASONS = {Effect.PENDING: CREATING, Effect.FAILED: FAILED}
"""Those of the condition, by what is found of a device."""

_LABEL_MAX = 63  # characters of a label's value: children carry their parent's name
_REASONS = {"ProxyPending": CREATING, "ProxyFailed": FAILED}  # by those of a ProxyClass's problem
_NO_STATUS: Object = {"subnetRoutes": "", "isExitNode": False, "isAppConnector": False, "devices": []}


@dataclass(frozen=True, slots=True)
class Observed:
    """What a Connector's plan depends on besides the Connector."""

    children: Children
    proxy_class: Object | None = None


def owner(name: str) -> Owner:
    """Return the owner of the children of the Connector *name*, which has no namespace."""
    return Owner(PARENT_CONNECTOR, Key("", name))


def class_name(obj: Object) -> str:
    """Return the ProxyClass that a Connector names; there is no default for Connectors."""
    name = _spec(obj).get("proxyClass")
    return name if isinstance(name, str) else ""


def violations(connector: Connector) -> list[str]:
    """Return what is wrong with *connector*, each as a sentence with the words to mend it (7.3)."""
    spec, name = connector.spec, connector.metadata.name
    routes = _routes(spec)
    found = [error for route in routes if (error := route_error(route))]
    if not spec.exit_node and (error := default_route_error(routes)):
        found.append(error)
    if not (spec.subnet_router or spec.exit_node or spec.app_connector):
        found.append("it connects nothing: set subnetRouter, exitNode or appConnector")
    if spec.app_connector and (spec.subnet_router or spec.exit_node):
        found.append("an app connector can't be a subnet router or an exit node too: make a Connector for each")
    if spec.hostname and spec.replicas > 1:
        found.append("one hostname can't be that of several replicas: use hostnamePrefix instead of hostname")
    if spec.hostname and spec.hostname_prefix:
        found.append("hostname and hostnamePrefix exclude each other: remove one of them")
    if len(name) > _LABEL_MAX:
        found.append(f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another")
    return found


def proxy(connector: Connector, settings: Settings, proxy_class: Object | None = None) -> Proxy:
    """Return the proxy, of as many replicas as are asked for, that a valid *connector* should have; *proxy_class* is
    the class that it names.
    """
    spec, name, class_ = connector.spec, connector.metadata.name, class_spec(proxy_class)
    config = ProxyConfig(
        hostname=spec.hostname or f"{name}-connector",
        server_url=settings.control_url,
        routes=advertised(_routes(spec), exit_node=spec.exit_node),
        app_connector=spec.app_connector is not None,
        accept_routes=accepts_routes(class_),
    )
    return Proxy(
        owner=owner(name),
        parent_uid=connector.metadata.uid,
        target=ConnectNetworks(spec.replicas),
        config=config,
        tags=spec.tags or settings.proxy_tags,
        hostname_prefix=spec.hostname_prefix or "",
        proxy_class=class_,
    )


def invalid(obj: Object, message: str) -> Plan:
    """Return the plan for a Connector that breaks a rule. What runs stays as it is."""
    return _refused(obj, INVALID, f"this Connector is invalid: {message}")


def refusal(obj: Object, connector: Connector, observed: Observed) -> Plan | None:
    """Return the plan for a Connector that can't be made as it is; None if it can. What runs stays as it is."""
    if wrong := violations(connector):
        return invalid(obj, "; ".join(wrong))
    if connector.spec.tailnet:
        return _refused(obj, FAILED, f"{_other_tailnet(obj)}: make a Connector without spec.tailnet")
    if not (name := class_name(obj)):
        return None
    if observed.proxy_class is None:
        return _refused(obj, FAILED, f"ProxyClass {name!r} does not exist: create it, or change spec.proxyClass")
    # A Connector has its class in its spec alone: not in labels and annotations, as others do.
    problem = class_problem({"metadata": {}}, observed.proxy_class, default=name)
    if problem is None:
        return None
    if is_changing(observed.proxy_class):  # which is no news, and over in a moment
        return Plan()
    return _refused(obj, _REASONS[problem.reason], problem.message)


def plan(
    obj: Object, connector: Connector, observed: Observed, settings: Settings, auth_keys: Mapping[int, str]
) -> Plan:
    """Return what the Connector *obj*, which `refusal` has nothing against, needs; *auth_keys* are by replica."""
    wanted = proxy(connector, settings, observed.proxy_class)
    made = plan_proxy(wanted, observed.children, settings, auth_keys)
    status = _status(obj, connector.spec, replica_devices(wanted, observed.children))
    if problem := proxy_problem(wanted, observed.children, auth_keys):
        status["conditions"] = _conditions(obj, False, CREATING, problem)
    return replace(made, status=status)


def plan_deletion(obj: Object, observed: Observed) -> Plan:
    """Return the next step of taking away what was made for the Connector *obj*."""
    if not has_finalizer(obj, FINALIZER):
        return Plan()
    step = plan_removal(observed.children)
    if step.devices and _spec(obj).get("tailnet"):
        words = f"{_other_tailnet(obj)}: delete this Connector's devices there, then its Secrets, and it will go"
        return _refused(obj, FAILED, words)
    return step


def failed(obj: Object, message: str, reason: str = "") -> Plan:
    """Return the plan that says why nothing could be made for the Connector *obj*; it is tried again."""
    return _refused(obj, reason or FAILED, message)


def _spec(obj: Object) -> Mapping[str, Any]:
    """Return the spec of a Connector that need not be valid."""
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _routes(spec: ConnectorSpec) -> Sequence[str]:
    asked = [*(spec.subnet_router.advertise_routes if spec.subnet_router else ())]
    return [*asked, *((spec.app_connector.routes or ()) if spec.app_connector else ())]


def _other_tailnet(obj: Object) -> str:
    return f"this version of the operator can't use Tailnet {_spec(obj).get('tailnet')!r}"


def _status(obj: Object, spec: ConnectorSpec, devices: Sequence[ReportedDevice]) -> Object:
    """Return the status of a Connector that is made; the printer columns want the zero values, too."""
    shown = [{"hostname": each.fqdn} | ({"tailnetIPs": list(each.ips)} if each.ips else {}) for each in devices]
    first = {name: value for name, value in shown[0].items() if value} if shown else {}
    return {
        "conditions": _conditions(obj, True, CREATED, CREATED),
        "subnetRoutes": ",".join(spec.subnet_router.advertise_routes) if spec.subnet_router else "",
        "isExitNode": spec.exit_node,
        "isAppConnector": spec.app_connector is not None,
        "devices": shown,
        **first,
    }


def _refused(obj: Object, reason: str, message: str) -> Plan:
    conditions = _conditions(obj, False, reason, message)
    notes = [Note("Warning", reason, message)] if reason != CREATING else []
    return Plan(status={**_NO_STATUS, **(obj.get("status") or {}), "conditions": conditions}, notes=notes)


def _conditions(obj: Object, ready: bool, reason: str, message: str) -> list[Object]:
    generation = int(obj["metadata"].get("generation", 0))
    wanted = condition(CONDITION_CONNECTOR_READY, ready, reason, message, generation)
    return set_condition((obj.get("status") or {}).get("conditions") or [], [wanted], now="")
