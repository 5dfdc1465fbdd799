"""Decides what a Connector needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import CONDITION_CONNECTOR_READY, PARENT_CONNECTOR
from tsoperator.api.objects import Key, Object, is_deleting, key_of, spec_text
from tsoperator.api.rules import DNS_LABEL_MAX
from tsoperator.api.v1alpha1.connector import Connector, ConnectorSpec
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.proxy.annotations import ignored, no_annotations
from tsoperator.proxy.classref import accepts_routes, class_called
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView, untried_message
from tsoperator.proxy.findings import Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import connected_networks
from tsoperator.proxy.replica import hostnames_error, replicas_error
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import (
    awaited_pods,
    awaits_keys,
    holds_nothing,
    plan_proxy,
    plan_removal,
    proxy_devices,
    proxy_key,
    proxy_problem,
    removal_message,
    replica_devices,
)
from tsoperator.reconcilers.connector.routes import advertised_routes, default_route_error, route_error
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note, Plan, Refusal
from tsoperator.settings import Settings

CREATED = "ConnectorCreated"
CREATING = "ConnectorCreating"
FAILED = "ConnectorCreationFailed"
INVALID = "ConnectorInvalid"
TERMINATING = "ConnectorTerminating"
DEVICE_REASONS = {Effect.PENDING: CREATING, Effect.FAILED: FAILED}
"""The reasons of the condition, by the effect of a finding about a device."""

VOCABULARY = no_annotations("Connector", "spec.hostname")
"""The operator reads no annotations and labels of Connectors."""

_LABEL_MAX = 63  # characters of a label's value: children carry their parent's name
_REASONS = {"ProxyPending": CREATING, "ProxyFailed": FAILED}  # by the reason of a refusal of the ProxyClass
_NO_STATUS: Object = {"subnetRoutes": "", "isExitNode": False, "isAppConnector": False, "devices": []}


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a Connector's plan depends, besides the Connector itself."""

    children: Children
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Connector named *key*."""
    return Owner(PARENT_CONNECTOR, key)


def class_name(obj: Object) -> str:
    """Return the ProxyClass that a Connector names; there is no default for Connectors."""
    return spec_text(obj, "proxyClass")


def tailnet_name(obj: Object) -> str:
    """Return the Tailnet that a Connector names; empty for the operator's own."""
    return spec_text(obj, "tailnet")


def violations(connector: Connector) -> list[str]:
    """Return what is wrong with *connector*; each violation is a sentence that says how to fix it."""
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
    if error := replicas_error(spec.replicas):
        found.append(f"{error}, or make another Connector beside it")
    if spec.hostname and spec.hostname_prefix:
        found.append("hostname and hostnamePrefix exclude each other: remove one of them")
    if len(name) > _LABEL_MAX:
        found.append(f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another")
    elif error := _hostname_error(connector):
        found.append(error)
    return found


def _hostname_error(connector: Connector) -> str:
    """Return an error if the devices of *connector* would have hostnames that are too long; empty if not."""
    spec = connector.spec
    if spec.hostname_prefix:
        return hostnames_error(spec.hostname_prefix, spec.replicas)
    if len(name := _hostname(connector)) <= DNS_LABEL_MAX:
        return ""
    field = "spec.hostnamePrefix" if spec.replicas > 1 else "spec.hostname"
    return f"its hostname {name} must have at most {DNS_LABEL_MAX} characters, not {len(name)}: set {field}"


def _hostname(connector: Connector) -> str:
    """Return the hostname of the device of *connector*, for a Connector without a hostname prefix."""
    return connector.spec.hostname or f"{connector.metadata.name}-connector"


def wanted(obj: Object, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that the Connector *obj* should have.

    If the Connector is being deleted, or if its proxy can't be made, return a plan instead. When a proxy can't be made,
    a running one stays as it is.
    """
    if is_deleting(obj):
        return plan_deletion(obj, observed)
    connector = Connector.parse(obj)
    if isinstance(connector, Invalid):
        return _refusal_plan(obj, INVALID, f"this Connector is invalid: {connector.message}")
    if wrong := violations(connector):
        return _refusal_plan(obj, INVALID, f"this Connector is invalid: {'; '.join(wrong)}")
    if observed.tailnet.pending:
        return Plan(error=observed.tailnet.pending)
    if observed.tailnet.refusal:
        return _refusal_plan(obj, FAILED, observed.tailnet.refusal.message)
    chosen = class_called(class_name(obj), observed.proxy_class, "change spec.proxyClass")
    if isinstance(chosen, Refusal):
        return Plan(whole=False) if chosen.is_passing else _refusal_plan(obj, _REASONS[chosen.reason], chosen.message)
    spec, own = connector.spec, owner(key_of(obj))
    config = ProxyConfig(
        hostname=_hostname(connector),
        server_url=observed.tailnet.login_url,
        routes=advertised_routes(_routes(spec), exit_node=spec.exit_node),
        app_connector=spec.app_connector is not None,
        accept_routes=accepts_routes(chosen),
    )
    return Proxy(
        owner=own,
        parent_uid=connector.metadata.uid,
        key=proxy_key(own, connector.metadata.uid, observed.children, settings),
        pod=connected_networks(),
        config=config,
        tags=spec.tags or settings.proxy_tags,
        tailnet=observed.tailnet.name,
        replica_count=spec.replicas,
        hostname_prefix=spec.hostname_prefix or "",
        proxy_class=chosen,
    )


def plan(
    obj: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for *obj*; *wanted* is from `wanted`, and *keys* are the auth keys of the replicas."""
    made = _proxy_plan(obj, wanted, observed, settings, keys)
    told = [] if is_deleting(obj) else ignored(obj, VOCABULARY)
    return replace(made, notes=[*made.notes, *told]) if told else made


def _proxy_plan(
    obj: Object, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal
) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return failed(obj, observed, keys)
    if awaits_keys(keys, observed.children):
        return Plan(error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    status = _status(obj, replica_devices(wanted, observed.children))
    if problem := proxy_problem(wanted, observed.children, keys):
        status["conditions"] = _conditions(obj, False, CREATING, problem)
    complete = replace(made, status=status)
    return with_findings(complete, devices.findings, condition=CONDITION_CONNECTOR_READY, reasons=DEVICE_REASONS)


def plan_deletion(obj: Object, observed: Observed) -> Plan:
    """Return the plan with the next step of removing the children of the Connector *obj*."""
    if holds_nothing(obj, observed.children):
        return Plan()
    step = plan_removal(owner(key_of(obj)), observed.children, observed.tailnet.name)
    if untried := untried_message(step, observed.tailnet):
        told = _refusal_plan(obj, FAILED, untried)
        return replace(step, status=told.status, notes=[*step.notes, *told.notes])
    if step.release:
        return step
    waits = _conditions(obj, False, TERMINATING, removal_message(awaited_pods(observed.children)))
    return replace(step, status={**_NO_STATUS, **(obj.get("status") or {}), "conditions": waits})


def failed(obj: Object, _observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that reports on the Connector *obj* why its proxy could not be made, and tries again."""
    return replace(_refusal_plan(obj, refusal.reason or FAILED, refusal.message), error=refusal.error)


def _routes(spec: ConnectorSpec) -> Sequence[str]:
    asked = [*(spec.subnet_router.advertise_routes if spec.subnet_router else ())]
    return [*asked, *((spec.app_connector.routes or ()) if spec.app_connector else ())]


def _status(obj: Object, devices: Sequence[ReportedDevice]) -> Object:
    """Return the status of a valid Connector with a proxy. It has all fields, because kubectl's columns show them."""
    spec = Connector.model_validate(obj).spec
    shown = [each.status(each.fqdn) for each in devices]
    first = {name: value for name, value in shown[0].items() if value} if shown else {}
    return {
        "conditions": _conditions(obj, True, CREATED, CREATED),
        "subnetRoutes": ",".join(spec.subnet_router.advertise_routes) if spec.subnet_router else "",
        "isExitNode": spec.exit_node,
        "isAppConnector": spec.app_connector is not None,
        "devices": shown,
        **first,
    }


def _refusal_plan(obj: Object, reason: str, message: str) -> Plan:
    conditions = _conditions(obj, False, reason, message)
    notes = [Note("Warning", reason, message)] if reason != CREATING else []
    return Plan(status={**_NO_STATUS, **(obj.get("status") or {}), "conditions": conditions}, notes=notes)


def _conditions(obj: Object, ready: bool, reason: str, message: str) -> list[Object]:
    generation = int(obj["metadata"].get("generation", 0))
    wanted = condition(CONDITION_CONNECTOR_READY, ready, reason, message, generation)
    return set_condition((obj.get("status") or {}).get("conditions") or [], [wanted], now="")
