"""Decides what an egress Service needs that a ProxyGroup serves (docs/development/groups.md).

Such a Service has a place at the group: a ClusterIP Service in the operator's namespace, with EndpointSlices that lead
to the proxies. While it moves, it has places at several groups, or a proxy of its own beside one.
"""

from collections.abc import Sequence
from dataclasses import replace

from tsoperator.api.conditions import FALSE, TRUE, condition, set_condition
from tsoperator.api.names import (
    ANNOTATION_EGRESS_LEFT_OUT,
    CONDITION_EGRESS_CONFIGURED,
    CONDITION_EGRESS_READY,
    CONDITION_EGRESS_VALID,
    CONDITION_PROXY_READY,
    FINALIZER,
    PROXY_GROUP,
)
from tsoperator.api.objects import Key, Object, annotations, is_deleting, key_of
from tsoperator.dns.clusternames import is_opted_out
from tsoperator.group.egress import entry_name, entry_of, is_available
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.clusterip import (
    PORT_COUNT,
    cluster_ip_service,
    new_name,
    place_labels,
    unselected,
    wanted_ports,
)
from tsoperator.reconcilers.service.grouprules import group_name, target, violations
from tsoperator.reconcilers.service.moves import led_to
from tsoperator.reconcilers.service.places import FRESH, Places, grace_left, removal, serving_of, slices_of, upkeep
from tsoperator.reconcilers.service.readiness import config_digest, configured, not_configured, readiness
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Child, Note, Plan, Refusal, earliest
from tsoperator.runtime.reverts import Reverts
from tsoperator.settings import Settings

CONDITIONS = (CONDITION_EGRESS_VALID, CONDITION_EGRESS_CONFIGURED, CONDITION_EGRESS_READY)
PATIENCE = 1.0
"""Seconds for which a new Service may show nothing, so that one write says what several would say one after another."""

_LOOK_AGAIN = 30.0  # s until the ports of a ProxyGroup that has no free ones are looked at again


def problem(service: Object, places: Places, settings: Settings) -> tuple[Object, list[Note]] | None:
    """Return the condition and the Events of a *service* for which nothing may change; None for a sound one."""
    name = group_name(service)
    group = places.group(name).obj
    if group is None or is_deleting(group):
        what = "does not exist: create it" if group is None else "is being deleted: create it anew"
        message = f"ProxyGroup {name!r} {what}, or name another one in annotation {PROXY_GROUP}"
        note = Note("Warning", "ProxyGroupNotReady", message, once=True)
        return _valid("Unknown", "ProxyGroupNotReady", message), [note]
    if wrong := violations(service, places, settings):
        message = f"invalid egress Service: {'; '.join(wrong)}"
        return _valid(False, "EgressSvcInvalid", message), [Note("Warning", "INVALIDSERVICE", message)]
    return None


def plan(service: Object, owner: Owner, places: Places, settings: Settings, *, is_named: bool = True) -> Plan:
    """Return what *service* needs at its ProxyGroup, and the removal of what it doesn't need any more at others.

    Unless it *is_named*, Pods don't find it by the name of its device.
    """
    if wrong := problem(service, places, settings):
        return _kept(service, *wrong, places, settings)
    if places.ports is None:
        return _exhausted(service, places, settings)
    live, name = places.at(group_name(service)), place_name(service, places, settings)
    place = Key(settings.namespace, name), place_labels(owner, group_name(service))
    names, is_named = wanted_ports(service), is_named and not is_opted_out(service)
    wanted = cluster_ip_service(*place, target(service), places.ports, names, is_named=is_named)
    new, old = places.new_and_old(name)
    here = egress.pointed_at(service, settings)
    others = [each for each in places.services if key_of(each).name != name]
    there = [each for each in others if not places.is_abandoned(key_of(each).name, settings)]
    slices = slices_of(places, [*([_updated(live, wanted)] if live else []), *there], settings)
    made = Plan(
        hold=FINALIZER,
        steps=[
            *map(Child, slices),  # before the ports change: until then, nothing leads where it shouldn't
            Child(wanted),
            *unselected(live),
            *removal(places, [name, *(key_of(each).name for each in there)], slices),
        ],
        requeue_after=grace_left(here, new, old, places, settings),
    )
    pointed = _pointed(service, led_to(here, new, old), made, places.reverts, settings)
    if live is None:
        return pointed  # its families decide the EndpointSlices, and its creation queues the Service again
    reported = _reported(service, wanted, pointed, places, settings)
    return replace(reported, notes=[*reported.notes, *_port_notes(service, places)])


def place_name(service: Object, places: Places, settings: Settings) -> str:
    """Return the name of the place of *service* at the ProxyGroup that it names."""
    group = group_name(service)
    live = places.at(group)
    return key_of(live).name if live else new_name(service, group)


def failed(service: Object, refusal: Refusal) -> Plan:
    """Return the plan that says on *service* why nothing could be made for it at its ProxyGroup, and tries again."""
    notes = [Note("Warning", refusal.reason or "ProxyFailed", refusal.message)]
    status = service.get("status") or {}
    conditions = status.get("conditions") or []
    if any(each["type"] == CONDITION_EGRESS_CONFIGURED and each["status"] == TRUE for each in conditions):
        return Plan(notes=notes, error=refusal.error)  # what the proxies were told still holds
    shown = not_configured(group_name(service), _digest(service), refusal.message)
    status = {**status, "conditions": set_condition(conditions, [shown], now="")}
    return Plan(status=status, notes=notes, error=refusal.error)


def without_conditions(conditions: Sequence[Object]) -> list[Object]:
    """Return *conditions* without those of a Service that a ProxyGroup serves."""
    return [each for each in conditions if each["type"] not in CONDITIONS]


def _port_notes(service: Object, places: Places) -> list[Note]:
    """Return an Event for each port of *service* that gets another port of the proxies."""
    return [
        Note(
            "Warning",
            "ProxyPortChanged",
            f"the proxies of ProxyGroup {group_name(service)!r} had one port for port {port}/{protocol} of this "
            f"Service and for Service {older}, which is older and keeps it: the operator gives this Service another "
            "one, and clients can connect to it again as soon as the proxies have read the change",
        )
        for (protocol, port), older in places.contested.items()
    ]


def _updated(live: Object, wanted: Object) -> Object:
    """Return the *live* ClusterIP Service with the ports and annotations that it is *wanted* to have."""
    metadata = {**live["metadata"], "annotations": wanted["metadata"]["annotations"]}
    return {**live, "metadata": metadata, "spec": {**live["spec"], "ports": wanted["spec"]["ports"]}}


def _pointed(service: Object, name: str, made: Plan, reverts: Reverts, settings: Settings) -> Plan:
    """Return *made* with the step that points *service* at the place called *name*, unless *reverts* say to wait."""
    notes = [Note("Warning", "ExternalNameOverwritten", egress.overwritten(reverts, name))] if reverts.fields else []
    rest = earliest(reverts.wait or reverts.settles or None, made.requeue_after)
    return replace(egress.pointed(service, name, made, reverts, settings), notes=notes, requeue_after=rest)


def _kept(service: Object, valid: Object, notes: Sequence[Note], places: Places, settings: Settings) -> Plan:
    """Return the plan that says what is wrong with *service*, and leaves what runs as it is.

    The finalizer goes if nothing runs.
    """
    shown = [valid, _readiness(service, places, settings)]
    release = FINALIZER if places.is_empty and places.own is None else ""
    return Plan(steps=upkeep(places, settings), notes=notes, status=_status(service, shown, places), release=release)


def _exhausted(service: Object, places: Places, settings: Settings) -> Plan:
    """Return the plan for a *service* for whose ports its ProxyGroup has no free ports; what runs stays as it is."""
    name = group_name(service)
    message = (
        f"ProxyGroup {name!r} has too few free ports: all of its Services together can have {PORT_COUNT}; remove some, "
        f"or name another ProxyGroup in annotation {PROXY_GROUP}"
    )
    shown = [_sound(), not_configured(name, _digest(service), message), _readiness(service, places, settings)]
    return Plan(
        steps=upkeep(places, settings),
        notes=[Note("Warning", "ProxyGroupFull", message)],
        status=_status(service, shown, places),
        requeue_after=_LOOK_AGAIN,
    )


def _reported(service: Object, wanted: Object, made: Plan, places: Places, settings: Settings) -> Plan:
    """Return *made* with the conditions of a sound *service* whose ClusterIP Service is as *wanted*."""
    name = group_name(service)
    group, digest = places.group(name), _digest(service)
    ready = _readiness(service, places, settings)
    notes = [*made.notes]
    if group.obj is None or not is_available(group.obj):
        message = f"no proxy of ProxyGroup {name!r} is in the tailnet yet: the conditions of the ProxyGroup say why"
        shown = [_with_words(_valid("Unknown", "ProxyGroupNotReady", message), made.notes), ready]
        notes.append(Note("Normal", "ProxyGroupNotReady", message, once=True))
        return replace(made, status=_status(service, shown, places), notes=notes)
    entry = group.entry(entry_name(key_of(service)))
    if entry is not None and entry == entry_of(wanted, settings.cluster_domain):
        shown = [_sound(), configured(name, digest), ready]
    elif entry is None and group.configmap and ANNOTATION_EGRESS_LEFT_OUT in annotations(group.configmap):
        message = (
            f"ProxyGroup {name!r} is full: its ConfigMap can't hold more than 900 KiB; name another ProxyGroup in "
            f"annotation {PROXY_GROUP}"
        )
        notes.append(Note("Warning", "ProxyGroupFull", message))
        shown = [_sound(), not_configured(name, digest, message), ready]
    else:
        shown = [_sound(), not_configured(name, digest), ready]
    if places.ages.get(FRESH, PATIENCE) < PATIENCE and ready["reason"] != "ReadyToRouteTraffic" and notes == []:
        return replace(made, requeue_after=earliest(made.requeue_after, PATIENCE - places.ages[FRESH]))
    notes = notes or _unready_notes(service, ready)
    if lost := _lost(service, places):
        notes.append(Note("Warning", "TargetNotFound", lost, once=True))
        shown[-1] = {**ready, "message": f"{ready['message']}; {lost}"}
    shown[0] = _with_words(shown[0], made.notes)
    return replace(made, notes=notes, status=_status(service, shown, places))


def _lost(service: Object, places: Places) -> str:
    """Say that no proxy finds the device to which *service* leads; empty if one does, or none has looked yet.

    Proxies forward nothing then, but count as ready, as in the Go operator.
    """
    group, name = places.group(group_name(service)), entry_name(key_of(service))
    entry = group.entry(name)
    reported = [report.entries.get(name) for report in group.reports.values()]
    current = [each for each in reported if each and entry and entry.forwarded(each)]
    if not current or not all(each.is_lost for each in current):
        return ""
    return (
        f"the proxies of ProxyGroup {group.name!r} find no device {target(service).fqdn} in the tailnet: check the "
        "name, that the device is there, and that the tailnet's policy lets them reach it"
    )


def _unready_notes(service: Object, ready: Object) -> list[Note]:
    """Return an Event if *service* is not *ready* for another reason than it says now.

    While a Pod is replaced, that is not known, which is no news: a ProxyGroup has many Services.
    """
    conditions = (service.get("status") or {}).get("conditions") or ()
    before = next((each["reason"] for each in conditions if each["type"] == CONDITION_EGRESS_READY), "")
    if ready["status"] != FALSE or ready["reason"] == before:
        return []
    return [Note("Normal", ready["reason"], ready["message"])]


def is_fresh(service: Object) -> bool:
    """Tell whether *service* has yet to show whether it is ready."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return all(each["type"] != CONDITION_EGRESS_READY for each in conditions)


def _readiness(service: Object, places: Places, settings: Settings) -> Object:
    name = group_name(service)
    live = places.at(name)
    return readiness(places.group(name), serving_of(live, places, settings) if live else {})


def _status(service: Object, shown: Sequence[Object], places: Places) -> Object:
    """Return the status of *service* with the conditions *shown*, and without those that say nothing any more."""
    status = service.get("status") or {}
    gone = {CONDITION_EGRESS_CONFIGURED} - {each["type"] for each in shown}
    gone |= set() if places.own else {CONDITION_PROXY_READY}
    left = [each for each in status.get("conditions") or () if each["type"] not in gone]
    return {**status, "conditions": set_condition(left, shown, now="")}


def _digest(service: Object) -> str:
    return config_digest(service, target(service), group_name(service))


def _with_words(shown: Object, notes: Sequence[Note]) -> Object:
    """Return the condition *shown* with the words of *notes*, which say that clients don't get to the proxies."""
    return {**shown, "message": "; ".join([shown["message"], *(each.message for each in notes)])}


def _sound() -> Object:
    return _valid(True, "EgressSvcValid", "EgressSvcValid")


def _valid(status: bool | str, reason: str, message: str) -> Object:
    return condition(CONDITION_EGRESS_VALID, status, reason, message)
