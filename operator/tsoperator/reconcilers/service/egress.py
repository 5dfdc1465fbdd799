"""Egress Services: the Pods of their proxies, and the step that points a Service at a place."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tsoperator.api.conditions import condition
from tsoperator.api.names import CONDITION_PROXY_READY, FINALIZER, PROXY_CLASS
from tsoperator.api.objects import SERVICE, Key, Object, has_finalizer
from tsoperator.api.rules import needs_route
from tsoperator.group.clusterip import Target
from tsoperator.group.places import Places
from tsoperator.proxy.proxypod import ProxyPod, egress_to_ip, egress_to_name
from tsoperator.reconcilers.service.ask import Ask
from tsoperator.runtime.plan import Note, Patch, Plan, earliest
from tsoperator.runtime.reverts import Reverts

LED: Final = "Pods reach "
"""The beginning of the message that says where Pods reach the target of an egress Service."""


def pod(ask: Ask) -> ProxyPod:
    """Return the Pods of the proxy for a valid egress Service."""
    return egress_to_name(f"{ask.magic_dns_name}.") if ask.magic_dns_name else egress_to_ip(ask.target.ip)


def route_notes(ask: Ask, *, accepts_routes: bool) -> list[Note]:
    """Return an Event if the proxy of a valid Service can't reach the target because it doesn't accept routes."""
    ip = ask.target.ip
    if not ip or accepts_routes or not needs_route(ip):
        return []
    words = (
        f"{ip} is not an address that the tailnet gives to devices, so the proxy reaches it only by a route that a "
        "device advertises: set tailscale.acceptRoutes: true in a ProxyClass, and name that in annotation "
        f"{PROXY_CLASS}"
    )
    return [Note("Warning", "RoutesNotAccepted", words, once=True)]


def strays(ask: Ask, place: str) -> list[str]:
    """Return the fields of a Service that must change so that the Service points at the place called *place*.

    Return no fields if the name of the place is empty.
    """
    if not place:
        return []
    wanted = {"externalName": f"{place}{ask.proxies_domain}", "type": "ExternalName"}
    return [f"spec.{name}" for name, value in wanted.items() if ask.service["spec"].get(name) != value]


def pointed(ask: Ask, place: str, made: Plan, reverts: Reverts) -> Plan:
    """Return *made* with the step that points a Service at the place called *place*, if the name isn't empty.

    There is no such step while *reverts* say to wait. The step comes last. But if the Service doesn't have our
    finalizer yet, the step comes first, and adds the finalizer in the same write. The API server refuses the step if
    the Service has changed since it was read. If another writer reverts the Service, an Event says so.
    """
    made = with_reverts(made, place, reverts)
    if reverts.wait or not strays(ask, place):
        return made
    external_name, metadata = f"{place}{ask.proxies_domain}", ask.service["metadata"]
    body: Object = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "spec": {"type": "ExternalName", "externalName": external_name, "selector": None},
    }
    if has_finalizer(ask.service, FINALIZER):
        return replace(made, steps=[*made.steps, Patch(SERVICE, ask.key, body)])
    body["metadata"]["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    return replace(made, hold="", steps=[Patch(SERVICE, ask.key, body), *made.steps])


def with_reverts(made: Plan, place: str, reverts: Reverts) -> Plan:
    """Return *made* with the reaction to *reverts* of a Service that should point at the place called *place*.

    An Event tells of the reverts, and the Service is reconciled again when the wait before its next rewrite is over. A
    plan that has the reaction already stays as it is.
    """
    if reverts.fields:
        note = Note("Warning", "ExternalNameOverwritten", overwritten(reverts, place))
        made = made if note in made.notes else replace(made, notes=[*made.notes, note])
    return replace(made, requeue_after=earliest(reverts.wait or reverts.settles or None, made.requeue_after))


def is_led_away(ask: Ask, places: Places) -> bool:
    """Tell whether a Service that had a place points at none of its *places*, because somebody pointed it elsewhere."""
    is_held = has_finalizer(ask.service, FINALIZER) and ask.service["spec"].get("type") == "ExternalName"
    return is_held and places.called(ask.points_at) is None


def leads(ask: Ask, place: str, places: Places) -> bool:
    """Tell whether the place called *place* serves a Service, and leads to its target.

    If so, the operator can point the Service at it, whatever else is wrong with the Service.
    """
    found = places.called(place)
    return found is not None and found.serves and found.target in (None, Target(ask.magic_dns_name, ask.target.ip))


def reached(ask: Ask, addresses: Sequence[str] = ()) -> str:
    """Return a message that says where Pods reach the target of an egress Service.

    It names the *addresses* at which Pods reach the target. Callers give only addresses that don't change.
    """
    at = f"at {', '.join(addresses)} and " if addresses else ""
    return f"{LED}{ask.destination} {at}as {ask.cluster_name}"


def starting(proxy: Key, place: str) -> Object:
    """Return the condition of a Service whose own *proxy* doesn't serve yet.

    Until the proxy serves, the Service points at the place called *place*, or at no place if that name is empty.
    """
    meanwhile = f"; until then clients are led to {place}" if place else ""
    message = (
        f"the Service leads to its proxy once the proxy's Pod is ready and has joined the tailnet{meanwhile}. If that "
        f"takes more than a minute, look at the Pod: kubectl -n {proxy.namespace} describe pod {proxy.name}-0"
    )
    return condition(CONDITION_PROXY_READY, False, "ProxyPending", message)


def overwritten(reverts: Reverts, place: str) -> str:
    """Return the message for the user about *reverts* of a Service that should point at the place called *place*."""
    fields = " and ".join(reverts.fields)
    return (
        f"{reverts.who} keeps setting {fields} back, so that clients don't get to the proxy {place}: "
        "leave spec.type, spec.externalName and spec.selector out of what it applies, or let it ignore them. Argo CD: "
        "ignoreDifferences for /spec/type, /spec/externalName and /spec/selector with the sync option "
        "RespectIgnoreDifferences=true. Flux: ignore rules for these paths in the Kustomization, or the annotation "
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent on the Service"
    )
