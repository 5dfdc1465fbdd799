"""Events about annotations of a Service that have no effect, or not the effect that the user probably wants."""

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
    CONDITION_INGRESS_VALID,
    CONDITION_PROXY_READY,
    LOAD_BALANCER_CLASS,
    PROXY_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Object, annotations, is_deleting, labels
from tsoperator.proxy.annotations import TAILNET_OF_A_GROUP, Vocabulary, ignored, nearest
from tsoperator.reconcilers.service.ask import Ask, ServiceMode
from tsoperator.runtime.plan import Note, Plan

_OF_A_DEVICE: Final = (ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, ANNOTATION_TAILNET_TARGET_IP_DEPRECATED)
"""The annotations that name the target of an egress Service."""
_OF_A_PROXY: Final = (ANNOTATION_HOSTNAME, ANNOTATION_TAGS, *_OF_A_DEVICE, PROXY_CLASS, PROXY_GROUP)
"""The annotations that configure a proxy, or name its target."""

VOCABULARY: Final = Vocabulary(
    "Service",
    known=(
        ANNOTATION_CLUSTER_DNS,
        ANNOTATION_EXPOSE,
        ANNOTATION_FUNNEL,
        *_OF_A_PROXY,
    ),
    switches=(ANNOTATION_EXPOSE, ANNOTATION_FUNNEL),
    opt_outs=(ANNOTATION_CLUSTER_DNS,),
    deprecated=(ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,),
    elsewhere={
        **dict.fromkeys(
            (ANNOTATION_FORWARD_CLUSTER_TRAFFIC, ANNOTATION_HTTP_ENDPOINT, ANNOTATION_HTTP_REDIRECT),
            "move it to an Ingress that leads to this Service, or remove it",
        ),
        **TAILNET_OF_A_GROUP,
    },
)
"""The annotations of Services that the operator reads."""

_OF_A_GROUP: Final = {
    ANNOTATION_HOSTNAME: "spec.hostnamePrefix",
    ANNOTATION_TAGS: "spec.tags",
    PROXY_CLASS: "spec.proxyClass",
}
"""The annotations that configure a proxy of a Service, and the fields that configure the proxies of a ProxyGroup."""


_MAIN: Final = {ServiceMode.GROUP: CONDITION_EGRESS_VALID, ServiceMode.HOSTED: CONDITION_INGRESS_VALID}
"""The type of the condition whose message repeats the notices, by the mode of the Service."""


def notices(ask: Ask) -> list[Note]:
    """Return an Event for each annotation or class of a Service that has no effect; it says what the user can do."""
    if is_deleting(ask.service):
        return []
    return [
        *ignored(ask.service, VOCABULARY),
        *(Note("Warning", reason, words, once=True) for reason, words in _without_effect(ask)),
    ]


def _without_effect(ask: Ask) -> Iterator[tuple[str, str]]:
    """Yield the reasons and messages of Events about settings that have no effect on a Service such as this one."""
    for words in _outranked(ask):
        yield "IgnoredAnnotation", words
    if ask.mode is ServiceMode.NOTHING:
        name, shown = ask.service["spec"].get("loadBalancerClass", ""), ask.status.get("loadBalancer") or {}
        if name and not shown.get("ingress") and nearest(name, [LOAD_BALANCER_CLASS]):
            yield (
                "IgnoredLoadBalancerClass",
                f"the operator doesn't serve load balancers of class {name}: if it is to, make the Service anew with "
                f"spec.loadBalancerClass: {LOAD_BALANCER_CLASS}, because the class can't be changed",
            )
        if words := _idle(ask):
            yield "IgnoredAnnotation", words
    if ask.exposes_tailnet:
        name = ask.service["spec"]["externalName"]
        yield (
            "ExposesTailnetDevice",
            f"spec.externalName {name} is the name of a device, which the tailnet reaches without a proxy: if Pods are "
            f"to reach it by this Service, write annotation {ANNOTATION_TAILNET_FQDN}: {name}, and remove "
            f"{ANNOTATION_EXPOSE}",
        )
    if ask.wants_funnel and ask.mode is ServiceMode.HOSTED:
        yield (
            "FunnelIgnored",
            f"annotation {ANNOTATION_FUNNEL} has no effect on a Service that a ProxyGroup exposes: remove it, or "
            f"remove annotation {PROXY_GROUP} to give the Service a proxy of its own",
        )
    elif ask.wants_funnel and not ask.is_balanced:
        yield (
            "FunnelIgnored",
            f"annotation {ANNOTATION_FUNNEL} has no effect: Funnel works on Services of type LoadBalancer and class "
            f"{LOAD_BALANCER_CLASS} only. Make the Service one, let an Ingress with this annotation lead to it, or "
            "remove the annotation",
        )


def _idle(ask: Ask) -> str:
    """Return a message if a Service configures a proxy but asks for none; empty if not."""
    there = annotations(ask.service)
    given = sorted(there.keys() & _OF_A_PROXY)
    if not given or ANNOTATION_EXPOSE in there:
        return ""
    if empty := next((name for name in _OF_A_DEVICE if name in there), ""):
        return f"annotation {empty} is empty, so the Service leads nowhere: name a device of the tailnet, or remove it"
    subject = f"annotation {given[0]} has" if len(given) == 1 else f"annotations {' and '.join(given)} have"
    return (
        f"{subject} no effect, because the Service asks for no proxy: to expose it to the tailnet, write annotation "
        f'{ANNOTATION_EXPOSE}: "true"; to lead to a device of the tailnet, give its name in {ANNOTATION_TAILNET_FQDN}'
    )


def _outranked(ask: Ask) -> Iterator[str]:
    """Yield messages about annotations that have no effect because of other annotations or the ProxyGroup."""
    if ask.mode in _MAIN:
        yield from _left_to_the_group(ask)
    if ask.is_exposed:
        given = annotations(ask.service)
        for name in _OF_A_DEVICE:
            if given.get(name):
                yield (
                    f"annotation {name} has no effect, because the Service is exposed to the tailnet: remove it, and "
                    "let another Service lead to that device"
                )
    elif ask.outranks_name:
        old, fqdn = ANNOTATION_TAILNET_TARGET_IP_DEPRECATED, ANNOTATION_TAILNET_FQDN
        weaker, stronger = (old, fqdn) if ask.mode is ServiceMode.GROUP else (fqdn, old)
        yield f"annotation {weaker} has no effect beside {stronger}: remove one of them"


def _left_to_the_group(ask: Ask) -> Iterator[str]:
    """Yield messages about annotations, and a label, that have no effect on a Service of a ProxyGroup."""
    own = (ANNOTATION_HOSTNAME, ANNOTATION_TAGS) if ask.mode is ServiceMode.HOSTED else ()
    for name, field in _OF_A_GROUP.items():
        if name in own:
            continue
        kind = "annotation" if name in annotations(ask.service) else "label"
        if kind == "annotation" or (name == PROXY_CLASS and name in labels(ask.service)):
            yield (
                f"{kind} {name} has no effect on a Service that a ProxyGroup serves: remove it, and set {field} of "
                f"ProxyGroup {ask.group!r} if all its proxies are to have that"
            )


def with_notes(plan: Plan, ask: Ask, notes: Sequence[Note]) -> Plan:
    """Return *plan* with *notes* among its Events, and in the message of the main condition of its status.

    A note that is to be written once becomes no Event if a condition has its message already.
    """
    if not (notes or plan.notes):
        return plan
    type_ = _MAIN.get(ask.mode, CONDITION_PROXY_READY)
    before = " ".join(each.get("message", "") for each in ask.conditions)
    held = [*plan.notes, *notes]
    told = tuple(note for note in held if note.once and note.message in before)
    news = [note for note in held if note not in told]
    status = _with_words(plan.status, type_, notes) if plan.status and notes else plan.status
    return replace(plan, status=status, notes=news, told=told)


def _with_words(status: Object, type_: str, notes: Sequence[Note]) -> Object:
    conditions = status.get("conditions") or []
    found = next((each for each in conditions if each["type"] == type_), None)
    if found is None:
        return status
    said = [found["message"], *(note.message for note in notes if note.message not in found["message"])]
    return {**status, "conditions": set_condition(conditions, [{**found, "message": "; ".join(said)}], now="")}
