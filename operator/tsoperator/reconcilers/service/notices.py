"""Settings of a Service that have no effect, or another one than they seem to have; and the Events that say so."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tsoperator.api.conditions import set_condition
from tsoperator.api.names import (
    ANNOTATION_CLUSTER_DNS,
    ANNOTATION_EXPOSE,
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_FUNNEL,
    ANNOTATION_HOSTNAME,
    ANNOTATION_HTTP_ENDPOINT,
    ANNOTATION_HTTP_REDIRECT,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    CONDITION_EGRESS_VALID,
    CONDITION_PROXY_READY,
    LOAD_BALANCER_CLASS,
    PROXY_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Object, annotations, is_deleting, labels
from tsoperator.proxy.annotations import Vocabulary, ignored, nearest
from tsoperator.reconcilers.service import egress, exposure
from tsoperator.reconcilers.service.mode import Mode, mode_of
from tsoperator.runtime.plan import Note, Plan
from tsoperator.settings import Settings

VOCABULARY: Final = Vocabulary(
    "Service",
    known=(
        ANNOTATION_CLUSTER_DNS,
        ANNOTATION_EXPOSE,
        ANNOTATION_FUNNEL,
        ANNOTATION_HOSTNAME,
        ANNOTATION_TAGS,
        ANNOTATION_TAILNET_FQDN,
        ANNOTATION_TAILNET_IP,
        ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
        PROXY_CLASS,
        PROXY_GROUP,
    ),
    switches=(ANNOTATION_EXPOSE, ANNOTATION_FUNNEL),
    opt_outs=(ANNOTATION_CLUSTER_DNS,),
    deprecated=(ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,),
    elsewhere=dict.fromkeys(
        (ANNOTATION_FORWARD_CLUSTER_TRAFFIC, ANNOTATION_HTTP_ENDPOINT, ANNOTATION_HTTP_REDIRECT),
        "move it to an Ingress that leads to this Service, or remove it",
    ),
)
"""The annotations that the operator reads on Services."""

_OF_A_PROXY: Final = {*VOCABULARY.known} - {ANNOTATION_EXPOSE, ANNOTATION_FUNNEL, ANNOTATION_CLUSTER_DNS}
"""The annotations that say what a proxy is to be like, or where it is to lead."""
_OF_A_GROUP: Final = {
    ANNOTATION_HOSTNAME: "spec.hostnamePrefix",
    ANNOTATION_TAGS: "spec.tags",
    PROXY_CLASS: "spec.proxyClass",
}
"""The annotations that say what a proxy is to be like, and the fields of a ProxyGroup that say it for the group's."""


def notices(service: Object, settings: Settings) -> list[Note]:
    """Return an Event for each thing in *service* that has no effect, with what to do about it."""
    if is_deleting(service):
        return []
    mode = mode_of(service, settings)
    unseen = [Note("Warning", "IgnoredAnnotation", words, once=True) for words in _outranked(service, mode, settings)]
    unserved = [*_class_notes(service), *_idle(service)] if mode is Mode.NOTHING else []
    return [*ignored(service, VOCABULARY), *unseen, *unserved, *exposure.notices(service, settings)]


def _class_notes(service: Object) -> list[Note]:
    """Say that the operator doesn't serve *service*, if its class is probably meant to be the operator's."""
    name = service["spec"].get("loadBalancerClass", "")
    shows = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    if not name or shows or not nearest(name, [LOAD_BALANCER_CLASS]):
        return []
    words = (
        f"the operator doesn't serve load balancers of class {name}: if it is to, make the Service anew with "
        f"spec.loadBalancerClass: {LOAD_BALANCER_CLASS}, because the class can't be changed"
    )
    return [Note("Warning", "IgnoredLoadBalancerClass", words, once=True)]


def _idle(service: Object) -> list[Note]:
    """Say that *service* asks for no proxy, if it says what one is to be like."""
    given = sorted(_OF_A_PROXY & annotations(service).keys())
    if not given or ANNOTATION_EXPOSE in annotations(service):
        return []
    subject = f"annotation {given[0]} has" if len(given) == 1 else f"annotations {' and '.join(given)} have"
    words = (
        f"{subject} no effect, because the Service asks for no proxy: to expose it to the tailnet, write annotation "
        f'{ANNOTATION_EXPOSE}: "true"; to lead to a device of the tailnet, give its name in {ANNOTATION_TAILNET_FQDN}'
    )
    return [Note("Warning", "IgnoredAnnotation", words, once=True)]


def _outranked(service: Object, mode: Mode, settings: Settings) -> Iterator[str]:
    """Say which annotations of *service* give way to others, or to its ProxyGroup."""
    if mode is Mode.GROUP:
        yield from _left_to_the_group(service)
    if exposure.asks(service, settings):
        for name in egress.given(service):
            yield (
                f"annotation {name} has no effect, because the Service is exposed to the tailnet: remove it, and let "
                "another Service lead to that device"
            )
    elif egress.outranks_name(service):
        old, fqdn = ANNOTATION_TAILNET_TARGET_IP_DEPRECATED, ANNOTATION_TAILNET_FQDN
        weaker, stronger = (old, fqdn) if mode is Mode.GROUP else (fqdn, old)
        yield f"annotation {weaker} has no effect beside {stronger}: remove one of them"


def _left_to_the_group(service: Object) -> Iterator[str]:
    """Say which annotations of *service*, and which label, its ProxyGroup doesn't read."""
    group = annotations(service)[PROXY_GROUP]
    for name, field in _OF_A_GROUP.items():
        kind = "annotation" if name in annotations(service) else "label"
        if kind == "annotation" or (name == PROXY_CLASS and name in labels(service)):
            yield (
                f"{kind} {name} has no effect on a Service that a ProxyGroup serves: remove it, and set {field} of "
                f"ProxyGroup {group!r} if all its proxies are to have that"
            )


def told(plan: Plan, service: Object, notes: Sequence[Note], settings: Settings) -> Plan:
    """Return *plan* with *notes* in its Events and in the main condition of its status, if it has one.

    An Event that is told once isn't told again if a condition says it already, whichever process wrote that.
    """
    if not (notes or plan.notes):
        return plan
    type_ = CONDITION_EGRESS_VALID if mode_of(service, settings) is Mode.GROUP else CONDITION_PROXY_READY
    before = " ".join(each["message"] for each in (service.get("status") or {}).get("conditions") or ())
    news = [note for note in (*plan.notes, *notes) if not (note.once and note.message in before)]
    status = _with_words(plan.status, type_, notes) if plan.status and notes else plan.status
    return replace(plan, status=status, notes=news)


def _with_words(status: Object, type_: str, notes: Sequence[Note]) -> Object:
    conditions = status.get("conditions") or []
    found = next((each for each in conditions if each["type"] == type_), None)
    if found is None:
        return status
    said = [found["message"], *(note.message for note in notes if note.message not in found["message"])]
    return {**status, "conditions": set_condition(conditions, [{**found, "message": "; ".join(said)}], now="")}
