"""Decides what an egress Service needs that a ProxyGroup serves (proxygroup-family.md 7 to 9).

Such a Service has a place at the group: a ClusterIP Service in the operator's namespace, with EndpointSlices that lead
to the proxies. While it moves, it has places at several groups, or a proxy of its own beside one.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import (
    ANNOTATION_EGRESS_LEFT_OUT,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    CONDITION_EGRESS_CONFIGURED,
    CONDITION_EGRESS_READY,
    CONDITION_EGRESS_VALID,
    CONDITION_PROXY_READY,
    DNS_FINALIZER,
    FINALIZER,
    HEALTH_PORT_NAME,
    LABEL_SERVICE_NAME,
    PROXY_GROUP,
)
from tsoperator.api.objects import (
    ENDPOINTSLICE,
    SERVICE,
    Key,
    Object,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
)
from tsoperator.api.rules import split_tags, tag_error
from tsoperator.desired.children import Owner
from tsoperator.desired.egressgroup import entries_of, entry_name, entry_of, is_available, served_service
from tsoperator.desired.plan import Child, Deletion, Note, Plan, Refusal, Step, earliest
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.clusterip import (
    PORT_COUNT,
    Target,
    cluster_ip_service,
    new_name,
    place_labels,
    wanted_ports,
)
from tsoperator.reconcilers.service.moves import Place, is_over, led_to
from tsoperator.reconcilers.service.places import FRESH, Places
from tsoperator.reconcilers.service.readiness import config_digest, configured, not_configured, readiness
from tsoperator.reconcilers.service.rewrites import Reverts
from tsoperator.reconcilers.service.slices import endpoint_slices, families, serving_pods
from tsoperator.settings import Settings

CONDITIONS = (CONDITION_EGRESS_VALID, CONDITION_EGRESS_CONFIGURED, CONDITION_EGRESS_READY)
PATIENCE = 1.0
"""Seconds for which a new Service may show nothing, so that one write says what several would say one after another."""

_LOOK_AGAIN = 30.0  # s until the ports of a ProxyGroup that has no free ones are looked at again


def target(service: Object) -> Target:
    """Return where *service* leads, as the user wrote it."""
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "")
    return Target(fqdn, "" if fqdn else egress.target_ip(service))


def group_name(service: Object) -> str:
    """Return the ProxyGroup that *service* names; empty if it names none."""
    return annotations(service).get(PROXY_GROUP, "")


def violations(service: Object, places: Places, settings: Settings) -> list[str]:
    """Return what is wrong with *service*; each violation is part of a sentence, and says how to fix it (7.1)."""
    found: list[str] = []
    spec, name = service["spec"], group_name(service)
    if spec.get("clusterIP") == "None":
        found.append("headless Services are not supported: use a Service of type ExternalName")
    found += egress.violations(service, settings.zones)
    given = annotations(service).get(ANNOTATION_TAGS)
    found += [
        f"invalid value of annotation {ANNOTATION_TAGS}: {error}"
        for tag in (split_tags(given) if given else ())
        if (error := tag_error(tag))
    ]
    found += _wrong_ports(spec.get("ports") or ())
    if spec.get("type") != "ExternalName":
        found.append("spec.type must be ExternalName, and spec.externalName any name, which the operator replaces")
    group = places.group(name).obj
    type_ = group["spec"].get("type") if group else "egress"
    if type_ != "egress":
        found.append(
            f"ProxyGroup {name!r} is of type {type_}, which this version of the operator doesn't run for Services yet: "
            f"name one of type egress in annotation {PROXY_GROUP}"
        )
    if places.rival:
        found.append(
            f"Service {places.rival} already has the entry {entry_name(key_of(service))!r} of ProxyGroup {name!r}: "
            f"give one of the two another name, or name another ProxyGroup in annotation {PROXY_GROUP}"
        )
    return found


def _wrong_ports(ports: Sequence[Object]) -> Iterable[str]:
    if not ports:
        yield "it has no ports: list those of the device that clients need in spec.ports"
    for each in ports:
        if each.get("protocol", "TCP") not in ("TCP", "UDP"):
            yield f"port {each['port']}/{each['protocol']}: the proxies forward TCP and UDP only"
        if each.get("name") == HEALTH_PORT_NAME:
            yield f"the port name {HEALTH_PORT_NAME} is taken by the operator: give the port another name"


def problem(service: Object, places: Places, settings: Settings) -> tuple[Object, list[Note]] | None:
    """Return the condition and the Events of a *service* for which nothing may change; None for a sound one."""
    name = group_name(service)
    group = places.group(name).obj
    if group is None or is_deleting(group):
        what = "does not exist" if group is None else "is being deleted"
        message = f"ProxyGroup {name!r} {what}: create it, or name another one in annotation {PROXY_GROUP}"
        return _valid("Unknown", "ProxyGroupNotReady", message), []
    if wrong := violations(service, places, settings):
        message = f"invalid egress Service: {', '.join(wrong)}"
        return _valid(False, "EgressSvcInvalid", message), [Note("Warning", "INVALIDSERVICE", message)]
    return None


def plan(service: Object, owner: Owner, places: Places, settings: Settings) -> Plan:
    """Return what *service* needs at its ProxyGroup, and the removal of what it doesn't need any more at others."""
    if wrong := problem(service, places, settings):
        return _kept(service, *wrong, places, settings)
    if places.ports is None:
        return _exhausted(service, places, settings)
    live, name = places.at(group_name(service)), place_name(service, places, settings)
    place = Key(settings.namespace, name), place_labels(owner, group_name(service))
    wanted = cluster_ip_service(*place, target(service), places.ports, wanted_ports(service))
    new, old = places.new_and_old(name)
    here = egress.pointed_at(service, settings)
    there = [each for each in places.services if key_of(each).name != name and not places.is_abandoned(each, settings)]
    slices = _slices(places, [*([_as(live, wanted)] if live else []), *there], settings)
    made = Plan(
        hold=FINALIZER,
        steps=[Child(wanted), *map(Child, slices), *removal(places, [name, *(key_of(each).name for each in there)])],
        requeue_after=_rest(here, new, old, places, settings),
    )
    pointed = _pointed(service, led_to(here, new, old), made, places.reverts, settings)
    if live is None:
        return pointed  # its families decide the EndpointSlices, and its creation queues the Service again
    return _reported(service, wanted, pointed, places, settings)


def place_name(service: Object, places: Places, settings: Settings) -> str:
    """Return the name of the place of *service* at the ProxyGroup that it names."""
    group = group_name(service)
    live = places.at(group)
    return key_of(live).name if live else new_name(service, group)


def abandoned(service: Object, current: str, places: Places, settings: Settings) -> list[str]:
    """Return the names of the places of *service* that it doesn't need any more, because the *current* one serves."""
    new, old = places.new_and_old(current)
    return [each.name for each in old] if is_over(egress.pointed_at(service, settings), new, old) else []


def moved_out(service: Object, current: str, made: Plan, places: Places, settings: Settings) -> Plan:
    """Return *made*, the plan for the proxy called *current*, with what becomes of the places at ProxyGroups."""
    kept = [each for each in places.services if not places.is_abandoned(each, settings)]
    gone = removal(places, [key_of(each).name for each in kept])
    new, old = places.new_and_old(current)
    rest = _rest(egress.pointed_at(service, settings), new, old, places, settings)
    return replace(
        made,
        steps=[*made.steps, *map(Child, _slices(places, kept, settings)), *gone],
        requeue_after=earliest(made.requeue_after, rest),
    )


def upkeep(places: Places, settings: Settings) -> Sequence[Step]:
    """Return the steps that keep the EndpointSlices of a Service up to date at all ProxyGroups where it has a place."""
    return tuple(Child(each) for each in _slices(places, places.services, settings))


def removal(places: Places, kept: Collection[str] = ()) -> list[Step]:
    """Return the steps that remove what a Service has at ProxyGroups, except for places with these names."""
    return [
        *(
            Deletion(ENDPOINTSLICE, each)
            for each in places.slices
            if labels(each).get(LABEL_SERVICE_NAME) not in kept and not is_deleting(each)
        ),
        *(
            Deletion(SERVICE, each, release=DNS_FINALIZER)
            for each in places.services
            if key_of(each).name not in kept or is_deleting(each)
        ),
    ]


def failed(service: Object, refusal: Refusal) -> Plan:
    """Return the plan that says on *service* why nothing could be made for it at its ProxyGroup, and tries again."""
    shown = not_configured(group_name(service), _digest(service), refusal.message)
    status = service.get("status") or {}
    conditions = set_condition(status.get("conditions") or [], [shown], now="")
    notes = [Note("Warning", refusal.reason or "ProxyFailed", refusal.message)]
    return Plan(status={**status, "conditions": conditions}, notes=notes, error=refusal.error)


def without_conditions(conditions: Sequence[Object]) -> list[Object]:
    """Return *conditions* without those of a Service that a ProxyGroup serves."""
    return [each for each in conditions if each["type"] not in CONDITIONS]


def _as(live: Object, wanted: Object) -> Object:
    """Return the *live* ClusterIP Service with the ports and annotations that it is *wanted* to have."""
    metadata = {**live["metadata"], "annotations": wanted["metadata"]["annotations"]}
    return {**live, "metadata": metadata, "spec": {**live["spec"], "ports": wanted["spec"]["ports"]}}


def _slices(places: Places, services: Iterable[Object], settings: Settings) -> list[Object]:
    """Return the EndpointSlices of these ClusterIP Services."""
    return [
        each
        for service in services
        if not is_deleting(service)
        for each in endpoint_slices(service, service["spec"]["ports"], _serving(service, places, settings))
    ]


def _serving(service: Object, places: Places, settings: Settings) -> dict[int, list[Object]]:
    """Return the Pods that serve a ClusterIP *service*, by IP version."""
    group, name = places.group(labels(service)[PROXY_GROUP]), entry_name(served_service(service))
    # What the Go operator made doesn't say where it leads, but the proxies have been told.
    entry = entry_of(service, settings.cluster_domain) or entries_of(group.configmap).get(name)
    return {version: serving_pods(group, name, entry, version) for version in families(service)}


def _rest(here: str, new: Place, old: Sequence[Place], places: Places, settings: Settings) -> float | None:
    """Return in how many seconds the first of the *old* places may go; None if none may, or all that may are going."""
    if not is_over(here, new, old):
        return None
    return earliest(*(left for each in old if (left := settings.move_grace - places.ages.get(each.name, 0.0)) > 0))


def _pointed(service: Object, name: str, made: Plan, reverts: Reverts, settings: Settings) -> Plan:
    """Return *made* with the step that points *service* at the place called *name*, unless *reverts* say to wait.

    A Service that we don't hold yet gets the finalizer by the same write.
    """
    notes = [Note("Warning", "ExternalNameOverwritten", egress.overwritten(reverts, name))] if reverts.fields else []
    patches = [] if reverts.wait else egress.rewrite(service, name, settings)
    rest = earliest(reverts.wait or reverts.settles or None, made.requeue_after)
    if patches and not has_finalizer(service, FINALIZER):
        metadata = service["metadata"]
        finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
        held = {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}
        patches = [replace(each, body={**each.body, "metadata": held}) for each in patches]
        return replace(made, hold="", steps=[*patches, *made.steps], notes=notes, requeue_after=rest)
    return replace(made, steps=[*made.steps, *patches], notes=notes, requeue_after=rest)


def _kept(service: Object, valid: Object, notes: Sequence[Note], places: Places, settings: Settings) -> Plan:
    """Return the plan that says what is wrong with *service*, and leaves what runs as it is."""
    shown = [valid, _readiness(service, places, settings)]
    return Plan(steps=upkeep(places, settings), notes=notes, status=_status(service, shown, places))


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
    ready, notes = _readiness(service, places, settings), list(made.notes)
    if group.obj is None or not is_available(group.obj):
        message = f"no proxy of ProxyGroup {name!r} is in the tailnet yet: the conditions of the ProxyGroup say why"
        shown = [_valid("Unknown", "ProxyGroupNotReady", message), ready]
        return replace(made, status=_status(service, shown, places))
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
    return replace(made, notes=notes, status=_status(service, shown, places))


def is_fresh(service: Object) -> bool:
    """Tell whether *service* has yet to show whether it is ready."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return all(each["type"] != CONDITION_EGRESS_READY for each in conditions)


def _readiness(service: Object, places: Places, settings: Settings) -> Object:
    name = group_name(service)
    live = places.at(name)
    return readiness(places.group(name), _serving(live, places, settings) if live else {})


def _status(service: Object, shown: Sequence[Object], places: Places) -> Object:
    """Return the status of *service* with the conditions *shown*, and without those that say nothing any more."""
    status = service.get("status") or {}
    gone = {CONDITION_EGRESS_CONFIGURED} - {each["type"] for each in shown}
    gone |= set() if places.own else {CONDITION_PROXY_READY}
    left = [each for each in status.get("conditions") or () if each["type"] not in gone]
    return {**status, "conditions": set_condition(left, shown, now="")}


def _digest(service: Object) -> str:
    return config_digest(service, target(service), group_name(service))


def _sound() -> Object:
    return _valid(True, "EgressSvcValid", "EgressSvcValid")


def _valid(status: bool | str, reason: str, message: str) -> Object:
    return condition(CONDITION_EGRESS_VALID, status, reason, message)
