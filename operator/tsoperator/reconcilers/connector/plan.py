"""Makes the plan for a Connector: decides which children, status and Events it should have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tsoperator.api.conditions import condition, conditions_of, set_condition
from tsoperator.api.names import CONDITION_CONNECTOR_READY
from tsoperator.api.objects import Object, generation_of, is_deleting, uid
from tsoperator.proxy.annotations import no_annotations, with_ignored
from tsoperator.proxy.classref import accepts_routes, class_called
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import connected_networks
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.proxy.workload import (
    awaits_keys,
    holds_nothing,
    plan_proxy,
    plan_reported_removal,
    proxy_devices,
    proxy_key,
    proxy_problem,
    replica_devices,
)
from tsoperator.reconcilers.connector.ask import Ask
from tsoperator.reconcilers.connector.routes import advertised_routes
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.runtime.success import device_words, with_success
from tsoperator.settings import Settings

CREATED = "ConnectorCreated"
CREATING = "ConnectorCreating"
FAILED = "ConnectorCreationFailed"
INVALID = "ConnectorInvalid"
TERMINATING = "ConnectorTerminating"
DEVICE_REASONS = {Effect.PENDING: CREATING, Effect.FAILED: FAILED}
"""The reasons of a Connector's condition, by the effect of a finding about a device."""

VOCABULARY = no_annotations("Connector", "spec.hostname")
"""The annotations and labels of Connectors that the operator reads: none."""

_REASONS = {"ProxyPending": CREATING, "ProxyFailed": FAILED}  # by the reason of a refusal of the ProxyClass
_NONE = "spec.replicas is 0, so it connects nothing"
_NOT_JOINED = "its proxy is made, and has not joined the tailnet yet"
_NO_STATUS: Object = {"subnetRoutes": "", "isExitNode": False, "isAppConnector": False, "devices": []}


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a Connector's plan depends, besides the Connector itself."""

    children: Children
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxy that a Connector should have, or a plan if there should be no proxy.

    There is a plan if the Connector is being deleted, or if its proxy can't be made. When a proxy can't be made, a
    running one stays as it is.
    """
    if is_deleting(ask.obj):
        return plan_deletion(ask, observed)
    if ask.wrong:
        return _refusal_plan(ask, Refusal(f"this Connector is invalid: {ask.wrong}", INVALID))
    if observed.tailnet.pending:
        return Plan(error=observed.tailnet.pending)
    if observed.tailnet.refusal:
        return _refusal_plan(ask, Refusal(observed.tailnet.refusal.message))
    chosen = class_called(ask.class_name, observed.proxy_class, "change spec.proxyClass")
    if isinstance(chosen, Refusal):
        waits = _refusal_plan(ask, Refusal(chosen.message, _REASONS[chosen.reason]))
        return Plan(whole=False) if chosen.is_passing else waits
    config = ProxyConfig(
        hostname=ask.hostname,
        server_url=observed.tailnet.login_url,
        routes=advertised_routes([*ask.subnet_routes, *ask.app_routes], exit_node=ask.is_exit_node),
        app_connector=ask.is_app_connector,
        accept_routes=accepts_routes(chosen),
    )
    return Proxy(
        owner=ask.owner,
        parent_uid=uid(ask.obj),
        key=proxy_key(ask.owner, uid(ask.obj), observed.children, settings),
        pod=connected_networks(),
        config=config,
        tags=ask.tags,
        tailnet=observed.tailnet.name,
        replica_count=ask.replicas,
        hostname_prefix=ask.hostname_prefix,
        proxy_class=chosen,
    )


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for a Connector.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    return with_ignored(_proxy_plan(ask, wanted, observed, settings, keys), ask.obj, VOCABULARY)


def _proxy_plan(ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return failed(ask, observed, keys)
    if awaits_keys(keys, observed.children):
        return Plan(error=keys.pending)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    made = plan_proxy(wanted, observed.children, settings, keys, devices)
    reported = replica_devices(wanted, observed.children)
    status = _status(ask, reported)
    if problem := proxy_problem(wanted, observed.children, keys):
        status["conditions"] = _conditions(ask.obj, False, CREATING, problem)
    complete = replace(made, status=status)
    found = with_findings(complete, devices.findings, condition=CONDITION_CONNECTOR_READY, reasons=DEVICE_REASONS)
    return with_success(found, conditions_of(ask.obj), CONDITION_CONNECTOR_READY, _joined(reported))


def plan_deletion(ask: Ask, observed: Observed) -> Plan:
    """Return the plan with the next step of removing the children of a Connector."""
    if holds_nothing(ask.obj, observed.children):
        return Plan()
    report, reasons = partial(_refusal_plan, ask), (FAILED, TERMINATING)
    return plan_reported_removal(ask.owner, observed.children, observed.tailnet, report, reasons)


def failed(ask: Ask, _observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a Connector why its proxy could not be made. The operator tries again."""
    return _refusal_plan(ask, refusal)


def _status(ask: Ask, devices: Sequence[ReportedDevice]) -> Object:
    """Return the status of a valid Connector with a proxy. It has all fields, because kubectl's columns show them."""
    shown = [each.status(each.fqdn) for each in devices]
    first = {name: value for name, value in shown[0].items() if value} if shown else {}
    return {
        "conditions": _conditions(ask.obj, True, CREATED, _joined(devices) or (_NOT_JOINED if ask.replicas else _NONE)),
        "subnetRoutes": ",".join(ask.subnet_routes),
        "isExitNode": ask.is_exit_node,
        "isAppConnector": ask.is_app_connector,
        "devices": shown,
        **first,
    }


def _joined(devices: Sequence[ReportedDevice]) -> str:
    """Return a text with the names and addresses of *devices* in the tailnet; empty if none has joined it."""
    words = device_words([(each.fqdn, each.ips) for each in devices if each.fqdn])
    return f"it is in the tailnet as {words}" if words else ""


def _refusal_plan(ask: Ask, refusal: Refusal) -> Plan:
    """Return the plan that reports *refusal* on a Connector, and does nothing else."""
    note = refusal.note(FAILED)
    conditions = _conditions(ask.obj, False, note.reason, note.message)
    status = {**_NO_STATUS, **(ask.obj.get("status") or {}), "conditions": conditions}
    return Plan(status=status, notes=[note] if note.reason != CREATING else [], error=refusal.error)


def _conditions(obj: Object, ready: bool, reason: str, message: str) -> list[Object]:
    wanted = condition(CONDITION_CONNECTOR_READY, ready, reason, message, generation_of(obj))
    return set_condition(conditions_of(obj), [wanted], now="")
