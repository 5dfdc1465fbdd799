"""Parses an Ingress into an `Ask` once, so that decisions don't read its annotations and its class again."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tsoperator.api.names import (
    ANNOTATION_FORWARD_CLUSTER_TRAFFIC,
    ANNOTATION_FUNNEL,
    ANNOTATION_HTTP_REDIRECT,
    ANNOTATION_TAGS,
    HA_INGRESS_FINALIZER,
    PARENT_INGRESS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Key, Object, annotations, has_finalizer, is_deleting, key_of, uid
from tsoperator.api.rules import is_true, split_tags
from tsoperator.dns.clusternames import is_opted_out
from tsoperator.proxy.classref import class_name
from tsoperator.proxy.paths import backend_names
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings


class IngressMode(Enum):
    """The way to serve an Ingress."""

    NOTHING = auto()
    """The Ingress is not of our class, or is being deleted."""
    PROXY = auto()
    """A proxy of its own serves the Ingress."""
    GROUP = auto()
    """A ProxyGroup serves the Ingress."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in an *ingress*, completed by the operator's settings.

    *ingress_class* is the IngressClass that it names, and *class_name* its ProxyClass; both are empty if there is none.
    *host* is the first host of the first TLS entry, the only one that has an effect. The device of the Ingress's proxy
    asks for *hostname*, which is the first label of that host, and for *tags*. *backends* are the names of the Services
    to which the Ingress leads.

    If the Ingress *redirects*, plain HTTP is answered with a redirect to HTTPS. If it *funnels*, the Internet is to
    reach it. *takes_cluster_traffic* tells whether Pods are to reach it; with None, the DNSConfig decides that for all
    Ingresses. If the Ingress *is_opted_out*, Pods are not to find it by its name.
    """

    ingress: Object
    key: Key
    mode: IngressMode
    ingress_class: str
    class_name: str
    host: str
    hostname: str
    tags: Sequence[str]
    backends: Sequence[str]
    redirects: bool
    funnels: bool
    takes_cluster_traffic: bool | None
    is_opted_out: bool

    @property
    def owner(self) -> Owner:
        """The owner of the Ingress's children, as their labels name it."""
        return Owner(PARENT_INGRESS, self.key)

    @property
    def uid(self) -> str:
        """The UID of the Ingress."""
        return uid(self.ingress)

    @property
    def is_held(self) -> bool:
        """True if the Ingress has the finalizer of an Ingress that a ProxyGroup serves."""
        return has_finalizer(self.ingress, HA_INGRESS_FINALIZER)

    @property
    def shown_name(self) -> str:
        """The name in the status of the Ingress, empty if there is none."""
        entries = (self.status.get("loadBalancer") or {}).get("ingress") or [{}]
        return entries[0].get("hostname") or ""

    @property
    def status(self) -> Object:
        """The status of the Ingress, empty if it has none."""
        return self.ingress.get("status") or {}


def parse(ingress: Object, settings: Settings) -> Ask:
    """Return the requests in *ingress*, which need not be valid."""
    given, key, host = annotations(ingress), key_of(ingress), _tls_host(ingress)
    tags, forwards = given.get(ANNOTATION_TAGS), given.get(ANNOTATION_FORWARD_CLUSTER_TRAFFIC)
    if is_deleting(ingress) or not is_ours(ingress, settings):
        mode = IngressMode.NOTHING
    else:
        mode = IngressMode.GROUP if given.get(PROXY_GROUP) else IngressMode.PROXY
    return Ask(
        ingress,
        key,
        mode,
        ingress_class=ingress["spec"].get("ingressClassName") or "",
        class_name=class_name(ingress, settings.proxy_class),
        host=host,
        hostname=host.partition(".")[0] or f"{key.namespace}-{key.name}-ingress",
        tags=split_tags(tags) if tags else settings.proxy_tags,
        backends=backend_names(ingress),
        redirects=is_true(given.get(ANNOTATION_HTTP_REDIRECT)),
        funnels=is_true(given.get(ANNOTATION_FUNNEL)),
        takes_cluster_traffic=None if forwards is None else is_true(forwards),
        is_opted_out=is_opted_out(ingress),
    )


def is_ours(ingress: Object, settings: Settings) -> bool:
    """Tell whether *ingress* is of our class."""
    return bool(ingress["spec"].get("ingressClassName") == settings.ingress_class)


def _tls_host(ingress: Object) -> str:
    """Return the first host of the first TLS entry; empty if there is none. All other hosts have no effect."""
    entries = ingress["spec"].get("tls") or [{}]
    return next(iter(entries[0].get("hosts") or ()), "")
