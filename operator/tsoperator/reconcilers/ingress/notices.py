"""Finds settings of an Ingress that look right but have no effect. An Event for each says how to fix it."""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_CLUSTER_DNS,
    ANNOTATION_EXPOSE,
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_FUNNEL,
    ANNOTATION_HOSTNAME,
    ANNOTATION_HTTP_ENDPOINT,
    ANNOTATION_HTTP_REDIRECT,
    ANNOTATION_INGRESS_CLASS,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    PROXY_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import annotations
from tsoperator.group.claims import ENABLED
from tsoperator.proxy.annotations import TAILNET_OF_A_GROUP, Vocabulary, ignored, nearest
from tsoperator.reconcilers.ingress.ask import Ask, IngressMode
from tsoperator.runtime.plan import Note

_ELSEWHERE: Final = {
    ANNOTATION_HOSTNAME: "write the hostname in spec.tls[0].hosts[0] instead",
    ANNOTATION_EXPOSE: "remove it, because the class alone exposes the Ingress",
    ANNOTATION_TAILNET_FQDN: "move it to a Service, which can lead to a device of the tailnet",
    ANNOTATION_TAILNET_IP: "move it to a Service, which can lead to a device of the tailnet",
    **TAILNET_OF_A_GROUP,
}
"""The annotations that have no effect on any Ingress, such as those for Services, with hints at what to do instead."""

VOCABULARY: Final = Vocabulary(
    "Ingress",
    known=(
        ANNOTATION_CLUSTER_DNS,
        ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
        ANNOTATION_FUNNEL,
        ANNOTATION_HTTP_REDIRECT,
        ANNOTATION_TAGS,
        PROXY_CLASS,
        PROXY_GROUP,
    ),
    switches=(ANNOTATION_FORWARD_CLUSTER_TRAFFIC, ANNOTATION_FUNNEL, ANNOTATION_HTTP_REDIRECT),
    opt_outs=(ANNOTATION_CLUSTER_DNS,),
    elsewhere={
        **_ELSEWHERE,
        ANNOTATION_HTTP_ENDPOINT: (
            f"name a ProxyGroup in {PROXY_GROUP}, or set {ANNOTATION_HTTP_REDIRECT} to true, so that plain HTTP is "
            "redirected to HTTPS"
        ),
    },
)
"""The annotations that the operator reads on an Ingress that has a proxy of its own."""

HOSTED_VOCABULARY: Final = Vocabulary(
    "Ingress of a ProxyGroup",
    known=(ANNOTATION_HTTP_ENDPOINT, ANNOTATION_HTTP_REDIRECT, ANNOTATION_TAGS, PROXY_GROUP),
    switches=(ANNOTATION_HTTP_REDIRECT,),
    elsewhere={
        **_ELSEWHERE,
        ANNOTATION_CLUSTER_DNS: "remove it, because the cluster's DNS never has the name of such an Ingress",
        ANNOTATION_FORWARD_CLUSTER_TRAFFIC: "remove it; an egress Service leads Pods to the Ingress",
        ANNOTATION_FUNNEL: f"remove it, or remove {PROXY_GROUP}: a proxy of its own has Funnel",
        PROXY_CLASS: "write it in spec.proxyClass of the ProxyGroup instead",
    },
    as_labels=(),
)
"""The annotations that the operator reads on an Ingress that names a ProxyGroup."""


def ignored_notes(ask: Ask) -> list[Note]:
    """Return an Event for each annotation and label of an Ingress that has no effect."""
    if ask.mode is not IngressMode.GROUP:
        return ignored(ask.ingress, VOCABULARY)
    given = annotations(ask.ingress)
    endpoint, redirect = given.get(ANNOTATION_HTTP_ENDPOINT, ENABLED), given.get(ANNOTATION_HTTP_REDIRECT)
    notes = ignored(ask.ingress, HOSTED_VOCABULARY)
    if endpoint != ENABLED:
        words = f'annotation {ANNOTATION_HTTP_ENDPOINT} turns nothing on: write "{ENABLED}", or remove it'
        notes.append(Note("Warning", "IgnoredAnnotation", words, once=True))
    elif ANNOTATION_HTTP_ENDPOINT in given and redirect == "true":
        words = (
            f"annotation {ANNOTATION_HTTP_REDIRECT} has no effect beside {ANNOTATION_HTTP_ENDPOINT}, which answers "
            "plain HTTP without a redirect: remove one of the two"
        )
        notes.append(Note("Warning", "IgnoredAnnotation", words, once=True))
    return notes


def _given(ask: Ask) -> str:
    """Return the name of one annotation that the operator reads and that the Ingress has.

    Return an empty text if the Ingress has no such annotation, or if the deprecated annotation names its class.
    """
    found = annotations(ask.ingress)
    ours = {*VOCABULARY.known, *HOSTED_VOCABULARY.known} - {ANNOTATION_CLUSTER_DNS}
    return "" if ANNOTATION_INGRESS_CLASS in found else min(ours & found.keys(), default="")


def class_notes(ask: Ask, ours: str, *, class_exists: bool) -> Sequence[Note]:
    """Return an Event if nobody serves an Ingress, but its class was probably meant to be *ours*, our IngressClass.

    *class_exists* is True if the IngressClass that the Ingress names exists.
    """
    name, old = ask.ingress_class, annotations(ask.ingress).get(ANNOTATION_INGRESS_CLASS, "")
    if not name and old and (old == ours or nearest(old, [ours])):
        words = (
            f"annotation {ANNOTATION_INGRESS_CLASS} has no effect on this operator, so it doesn't serve the Ingress: "
            f"{'' if old == ours else 'if it is to, '}write {ours} in spec.ingressClassName instead"
        )
    elif not name and (given := _given(ask)):
        words = (
            f"spec.ingressClassName is missing, so this operator doesn't serve the Ingress, although it has annotation "
            f"{given}: write {ours} in spec.ingressClassName, or remove the annotation"
        )
    elif name and not class_exists and nearest(name, [ours]):
        words = (
            f"there is no IngressClass {name}, so nobody serves the Ingress: if this operator is to, write {ours} in "
            "spec.ingressClassName"
        )
    else:
        return ()
    return (Note("Warning", "IgnoredIngressClass", words, once=True),)
