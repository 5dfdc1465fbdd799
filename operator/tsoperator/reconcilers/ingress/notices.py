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
from tsoperator.proxy.annotations import Vocabulary, nearest
from tsoperator.reconcilers.ingress.ask import Ask, Mode
from tsoperator.runtime import unsupported
from tsoperator.runtime.plan import Note

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
        ANNOTATION_HOSTNAME: "write the hostname in spec.tls[0].hosts[0] instead",
        ANNOTATION_EXPOSE: "remove it, because the class alone exposes the Ingress",
        ANNOTATION_HTTP_ENDPOINT: (
            f"remove it, or set {ANNOTATION_HTTP_REDIRECT} to true, so that plain HTTP is redirected to HTTPS"
        ),
        ANNOTATION_TAILNET_FQDN: "move it to a Service, which can lead to a device of the tailnet",
        ANNOTATION_TAILNET_IP: "move it to a Service, which can lead to a device of the tailnet",
    },
)
"""The annotations of Ingresses that the operator reads."""


def group_notes(ask: Ask, *, has_proxy: bool) -> Sequence[Note]:
    """Return an Event if an Ingress names a ProxyGroup, because no ProxyGroup serves it."""
    if ask.mode is not Mode.GROUP:
        return ()
    message = f"annotation {PROXY_GROUP} has no effect yet, because the operator can't serve an Ingress by a ProxyGroup"
    if has_proxy:
        words = f"{message}: the proxy that the Ingress has goes on serving it; remove the annotation"
    else:
        words = (
            f"{message}: nothing is made for this Ingress, and what another operator made for it stays as it is; to "
            "give it a proxy of its own, remove the annotation"
        )
    return (Note("Warning", unsupported.REASON, words),)


def class_notes(ask: Ask, ours: str, *, class_exists: bool) -> Sequence[Note]:
    """Return an Event if nobody serves an Ingress, but its class was probably meant to be *ours*, our IngressClass.

    *class_exists* is True if the IngressClass that the Ingress names exists.
    """
    name = ask.ingress_class
    if not name and annotations(ask.ingress).get(ANNOTATION_INGRESS_CLASS) == ours:
        words = (
            f"annotation {ANNOTATION_INGRESS_CLASS} has no effect on this operator, so it doesn't serve the Ingress: "
            f"write {ours} in spec.ingressClassName instead"
        )
    elif name and not class_exists and nearest(name, [ours]):
        words = (
            f"there is no IngressClass {name}, so nobody serves the Ingress: if this operator is to, write {ours} in "
            "spec.ingressClassName"
        )
    else:
        return ()
    return (Note("Warning", "IgnoredIngressClass", words, once=True),)
