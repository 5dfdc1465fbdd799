"""Makes the plan for an egress Service of a ProxyGroup (docs/development/groups.md).

Such a Service has a place at the group: a ClusterIP Service in the operator's namespace, with EndpointSlices that lead
to the proxies. While the Service moves, it has several places: at two or more groups, or at a group and at a proxy of
its own.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tsoperator.api.conditions import FALSE, TRUE, condition
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
from tsoperator.group.clusterip import cluster_ip_service, new_name, place_labels, unselected
from tsoperator.group.egress import entry_name, entry_of
from tsoperator.group.places import Places, best_place, endpoints_of, move, upkeep
from tsoperator.group.ports import PORT_COUNT
from tsoperator.group.proxygroup import Group, is_available, replica_count
from tsoperator.group.slices import Serving, cluster_ips
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.ask import Ask
from tsoperator.reconcilers.service.violations import group_violations
from tsoperator.runtime.plan import Child, Note, Plan, Refusal, earliest
from tsoperator.runtime.reverts import NO_REVERTS, Reverts
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

FRESH = "fresh"
"""The name of a fact: a Service's status doesn't say yet whether the Service is ready."""

CONDITIONS = (CONDITION_EGRESS_VALID, CONDITION_EGRESS_CONFIGURED, CONDITION_EGRESS_READY)
PATIENCE = 1.0
"""The longest time, in seconds, for which the status of a new Service says nothing about its readiness.

In this time, several facts become known one after another, and one write of the status can say them all.
"""

_PORT_FIELDS = ("name", "protocol", "appProtocol", "port", "targetPort", "nodePort")
_ALWAYS = ("port", "targetPort")
_LOOK_AGAIN = 30.0  # s until the ports of a ProxyGroup that has no free ones are looked at again


def problem(ask: Ask, places: Places, suffixes: Suffixes = NO_SUFFIXES) -> tuple[Object, list[Note]] | None:
    """Return the condition and the Events of a Service that is invalid, or whose group is missing; otherwise None.

    The objects of such a Service must not change. *suffixes* are the known suffixes of MagicDNS names.
    """
    group = places.group(ask.group).obj
    if group is None or is_deleting(group):
        what = "does not exist: create it" if group is None else "is being deleted: create it anew"
        message = f"ProxyGroup {ask.group!r} {what}, or name another one in annotation {PROXY_GROUP}"
        note = Note("Warning", "ProxyGroupNotReady", message, once=True)
        return _valid("Unknown", "ProxyGroupNotReady", message), [note]
    if places.ports is None and (wrong := group_violations(ask, places, suffixes)):  # only a valid Service has ports
        message = f"invalid egress Service: {'; '.join(wrong)}"
        return _valid(False, "EgressSvcInvalid", message), [Note("Warning", "INVALIDSERVICE", message)]
    return None


def plan(
    ask: Ask,
    places: Places,
    suffixes: Suffixes = NO_SUFFIXES,
    reverts: Reverts = NO_REVERTS,
    *,
    is_named: bool = True,
) -> Plan:
    """Return the plan that makes the place of a Service at its ProxyGroup, and removes its abandoned places.

    *suffixes* are the known suffixes of MagicDNS names. *reverts* say how another writer keeps reverting the
    Service. Unless it *is_named*, Pods don't find the Service by the name of its device.
    """
    if wrong := problem(ask, places, suffixes):
        release = FINALIZER if places.is_empty and places.own is None else ""  # no proxy or place needs it
        return replace(_kept(ask, [wrong[0]], wrong[1], places), release=release)
    if places.ports is None:
        return _exhausted(ask, places)
    live = places.at(ask.group)
    name = place_name(ask, live)
    wanted = cluster_ip_service(
        Key(ask.namespace, name),
        place_labels(ask.owner, ask.group),
        ask.target,
        places.ports,
        ask.ports,
        is_named=is_named and not is_opted_out(ask.service),
    )
    slices, gone, wait = move(ask.points_at, name, places, *([_updated(live, wanted)] if live else []))
    made = Plan(
        hold=FINALIZER,
        steps=[
            *map(Child, slices),  # before the ports change, so that no connection gets to a wrong port
            Child(wanted),
            *unselected(live),
            *gone,
        ],
        requeue_after=wait,
    )
    pointed = egress.pointed(ask, best_place(ask.points_at, name, places), made, reverts)
    if live is None:
        return pointed  # its EndpointSlices depend on its IP versions; its creation queues the Service again
    reported = _reported(ask, live, wanted, pointed, places)
    return replace(reported, notes=[*reported.notes, *_port_notes(ask, places)])


def place_name(ask: Ask, live: Object | None) -> str:
    """Return the name of the place of a Service at the ProxyGroup that it names.

    *live* is the ClusterIP Service of this place, if there is one.
    """
    return key_of(live).name if live else new_name(ask.service, ask.group)


def failed(ask: Ask, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a Service why a step for its place failed. The operator tries again."""
    notes = [refusal.note("ProxyFailed")]
    if any(each["type"] == CONDITION_EGRESS_CONFIGURED and each["status"] == TRUE for each in ask.conditions):
        return Plan(notes=notes, error=refusal.error)  # the proxies still serve the last configuration
    shown = not_configured(ask.group, config_digest(ask), refusal.message)
    return Plan(status=ask.status_with(shown), notes=notes, error=refusal.error)


def _port_notes(ask: Ask, places: Places) -> list[Note]:
    """Return an Event for each port of a Service that gets another port of the proxies than before."""
    return [
        Note(
            "Warning",
            "ProxyPortChanged",
            f"the proxies of ProxyGroup {ask.group!r} had one port for port {port}/{protocol} of this "
            f"Service and for Service {older}, which is older and keeps it: the operator gives this Service another "
            "one, and clients can connect to it again as soon as the proxies have read the change",
        )
        for (protocol, port), older in places.contested.items()
    ]


def _updated(live: Object, wanted: Object) -> Object:
    """Return the *live* ClusterIP Service with the ports and annotations of *wanted*."""
    metadata = {**live["metadata"], "annotations": wanted["metadata"]["annotations"]}
    return {**live, "metadata": metadata, "spec": {**live["spec"], "ports": wanted["spec"]["ports"]}}


def _kept(ask: Ask, shown: Sequence[Object], notes: Sequence[Note], places: Places) -> Plan:
    """Return the plan that reports a problem by the conditions *shown* and by *notes*.

    The plan changes nothing but EndpointSlices.
    """
    status = _status(ask, [*shown, _readiness(ask, places.at(ask.group), places)], places)
    return Plan(steps=upkeep(places), notes=notes, status=status)


def _exhausted(ask: Ask, places: Places) -> Plan:
    """Return the plan for a Service whose ProxyGroup has too few free ports for it."""
    message = (
        f"ProxyGroup {ask.group!r} has too few free ports: all of its Services together can have {PORT_COUNT}; remove "
        f"some, or name another ProxyGroup in annotation {PROXY_GROUP}"
    )
    shown = [_SOUND, not_configured(ask.group, config_digest(ask), message)]
    return replace(_kept(ask, shown, [Note("Warning", "ProxyGroupFull", message)], places), requeue_after=_LOOK_AGAIN)


def _reported(ask: Ask, live: Object, wanted: Object, made: Plan, places: Places) -> Plan:
    """Return *made* with the conditions of a valid Service whose *live* ClusterIP Service should be as *wanted*."""
    name, group, digest = ask.group, places.group(ask.group), config_digest(ask)
    lost = _lost(ask, places)
    ready, notes = _readiness(ask, live, places, is_lost=bool(lost)), [*made.notes]
    if group.obj is None or not is_available(group.obj):
        message = f"no proxy of ProxyGroup {name!r} is in the tailnet yet: the conditions of the ProxyGroup say why"
        shown = [_with_words(_valid("Unknown", "ProxyGroupNotReady", message), made.notes), ready]
        notes.append(Note("Normal", "ProxyGroupNotReady", message, once=True))
        return replace(made, status=_status(ask, shown, places), notes=notes)
    entry = group.entry(entry_name(ask.key))
    if entry is not None and entry == entry_of(wanted, places.cluster_domain):
        config = configured(name, digest)
    elif entry is None and group.configmap and ANNOTATION_EGRESS_LEFT_OUT in annotations(group.configmap):
        message = (
            f"ProxyGroup {name!r} is full: its ConfigMap can't hold more than 900 KiB; name another ProxyGroup in "
            f"annotation {PROXY_GROUP}"
        )
        notes.append(Note("Warning", "ProxyGroupFull", message))
        config = not_configured(name, digest, message)
    else:
        config = not_configured(name, digest)
    if places.ages.get(FRESH, PATIENCE) < PATIENCE and ready["reason"] != "ReadyToRouteTraffic" and notes == []:
        return replace(made, requeue_after=earliest(made.requeue_after, PATIENCE - places.ages[FRESH]))
    notes = notes or _unready_notes(ask, ready)
    if config["status"] == TRUE and not lost:
        notes += _success_notes(ask, live, ready)
    if lost:
        notes.append(Note("Warning", "TargetNotFound", lost, once=True))
        ready = {**ready, "message": f"{ready['message']}; {lost}"}
    return replace(made, notes=notes, status=_status(ask, [_with_words(_SOUND, made.notes), config, ready], places))


def _lost(ask: Ask, places: Places) -> str:
    """Return a message if no proxy finds the device of a Service; empty if one does, or if no proxy has looked yet.

    Proxies that don't find the device forward nothing. They are ready nevertheless, as in the Go operator.
    """
    group, name = places.group(ask.group), entry_name(ask.key)
    entry = group.entry(name)
    reported = [report.entries.get(name) for report in group.reports.values()]
    current = [each for each in reported if each and entry and entry.forwarded(each)]
    if not current or not all(each.is_lost for each in current):
        return ""
    return (
        f"the proxies of ProxyGroup {group.name!r} find no device {ask.target.fqdn} in the tailnet: check the "
        "name, that the device is there, and that the tailnet's policy lets them reach it"
    )


def _unready_notes(ask: Ask, ready: Object) -> list[Note]:
    """Return an Event if the desired condition *ready* is False, and has another reason than the present one.

    While a Pod is replaced, the condition is Unknown. That causes no Event, because a ProxyGroup has many Services.
    """
    before = next((each["reason"] for each in ask.conditions if each["type"] == CONDITION_EGRESS_READY), "")
    if ready["status"] != FALSE or ready["reason"] == before:
        return []
    return [Note("Normal", ready["reason"], ready["message"])]


def is_fresh(ask: Ask) -> bool:
    """Tell whether a Service's status still lacks the condition about the Service's readiness."""
    return all(each["type"] != CONDITION_EGRESS_READY for each in ask.conditions)


def _readiness(ask: Ask, live: Object | None, places: Places, *, is_lost: bool = False) -> Object:
    """Return the condition that says how many proxies route traffic, and where Pods reach the device.

    *live* is the ClusterIP Service, None if there is none. The condition doesn't say where Pods reach the device if
    *live* is None, if the condition is False, or if the device *is_lost*. While a Pod is replaced, the condition is
    Unknown. In that case it says where Pods reach the device only if the present condition says it, too.
    """
    shown = readiness(places.group(ask.group), endpoints_of(live, places) if live else {})
    if live is None or is_lost or shown["status"] == FALSE or (shown["status"] != TRUE and not _was_reached(ask)):
        return shown
    return _with_words(shown, _reached_notes(ask, live))


def _was_reached(ask: Ask) -> bool:
    """Tell whether a condition in the status already says where Pods reach the device."""
    return any(each["type"] == CONDITION_EGRESS_READY and egress.LED in each["message"] for each in ask.conditions)


def _reached_notes(ask: Ask, live: Object) -> list[Note]:
    """Return the Event that says where Pods reach the target of a Service: at its place *live*."""
    words = egress.reached(ask, cluster_ips(live))
    return [Note("Normal", "ReadyToRouteTraffic", words, once=True)]


def _success_notes(ask: Ask, live: Object, ready: Object) -> list[Note]:
    """Return the Event that says where Pods reach the target of a Service, if the user hasn't been told that yet.

    There is an Event only if the desired condition *ready* is True. If the present condition says where Pods reach the
    target, there is an Event only if they now reach it elsewhere. If the present condition doesn't say where, there is
    an Event only if it isn't True. The end of a Pod's replacement causes no Event.
    """
    before = next((each for each in ask.conditions if each["type"] == CONDITION_EGRESS_READY), None)
    (note,) = _reached_notes(ask, live)
    said, was = (before["message"], before["status"]) if before else ("", FALSE)
    is_told = note.message in said if egress.LED in said else was == TRUE
    return [note] if ready["status"] == TRUE and not is_told else []


def _status(ask: Ask, shown: Sequence[Object], places: Places) -> Object:
    """Return the status of a Service with the conditions *shown*, and without outdated ones."""
    gone = {CONDITION_EGRESS_CONFIGURED} - {each["type"] for each in shown}
    return ask.status_with(*shown, without=gone if places.own else {*gone, CONDITION_PROXY_READY})


def config_digest(ask: Ask) -> str:
    """Return the digest of the configuration that the proxies have for a Service, as the Go operator computes it."""
    ports = [
        {name: each.get(name, 0) for name in _PORT_FIELDS if name in _ALWAYS or each.get(name)}
        for each in ask.service["spec"].get("ports") or ()
    ]
    config = {"ports": ports, "tailnetTarget": {"ip": ask.target.ip, "fqdn": ask.target.fqdn}, "proxyGroup": ask.group}
    return hashlib.sha256(json.dumps(config, separators=(",", ":")).encode()).hexdigest()


def configured(group: str, digest: str) -> Object:
    """Return the condition of a Service that has an entry for the proxies of *group*."""
    reason = f"ConfiguredFor:ProxyGroup:{group}:Config:{digest}"
    return condition(CONDITION_EGRESS_CONFIGURED, True, reason, reason)


def not_configured(group: str, digest: str, message: str = "") -> Object:
    """Return the condition of a Service that has no entry for the proxies of *group*; *message* says why."""
    reason = f"ConfigurationFailed:ProxyGroup:{group}:Config:{digest}"
    return condition(CONDITION_EGRESS_CONFIGURED, False, reason, message or reason)


def readiness(group: Group, serving: Mapping[int, Serving]) -> Object:
    """Return the condition that says how many proxies of *group* route traffic.

    *serving* are the Pods in the EndpointSlices of each IP version, by port; there are none while the ClusterIP Service
    has no address. A Pod routes traffic if all ports lead to it, in all IP versions.
    """
    if not serving or group.obj is None or not is_available(group.obj):
        message = (
            f"ProxyGroup {group.name!r} doesn't serve it yet: if that stays, look at {CONDITION_EGRESS_VALID}, and at "
            "the conditions of the ProxyGroup"
        )
        return _ready(False, "ClusterResourcesNotReady", message)
    replicas = replica_count(group.obj)
    if replicas == 0:
        message = f"ProxyGroup {group.name!r} has no proxies: give it spec.replicas of at least 1"
        return _ready(False, "NoProxiesConfigured", message)
    names = {f"{group.name}-{ordinal}" for ordinal in range(replicas)}
    if not names <= {key_of(pod).name for pod in group.pods}:
        return _ready("Unknown", "ClusterResourcesNotReady", f"a Pod of ProxyGroup {group.name!r} is not there")
    led = [{key_of(pod).name for pod in pods} for each in serving.values() for pods in each.values() or [()]]
    count = len(names.intersection(*led))
    message = f"{count} out of {replicas} replicas are ready to route traffic"
    if count == 0:
        some = "; some of the Service's ports and addresses lead to proxies already" if any(led) else ""
        return _ready(False, "NotReadyToRouteTraffic", f"{message}{some}")
    return _ready(True, "ReadyToRouteTraffic" if count == replicas else "PartiallyReadyToRouteTraffic", message)


def _with_words(shown: Object, notes: Sequence[Note]) -> Object:
    """Return the condition *shown* with the messages of *notes* at the end of its message."""
    return {**shown, "message": "; ".join([shown["message"], *(each.message for each in notes)])}


def _ready(status: bool | str, reason: str, message: str) -> Object:
    return condition(CONDITION_EGRESS_READY, status, reason, message)


def _valid(status: bool | str, reason: str, message: str) -> Object:
    return condition(CONDITION_EGRESS_VALID, status, reason, message)


_SOUND = _valid(True, "EgressSvcValid", "EgressSvcValid")
