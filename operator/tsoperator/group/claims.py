"""The claims of objects on labels of a tailnet: the names under which a ProxyGroup should serve them.

The proxies of a ProxyGroup of type ingress serve Ingresses and Services, and those of type kube-apiserver serve the
Kubernetes API. They serve each object as a Tailscale Service. The label that an object claims is the first label of
that Tailscale Service's MagicDNS name. Several objects can claim one label; the oldest claim in a tailnet wins.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_EXPOSE,
    ANNOTATION_HOSTNAME,
    ANNOTATION_HTTP_ENDPOINT,
    ANNOTATION_HTTP_REDIRECT,
    ANNOTATION_TAGS,
    AUTH_PROXY_SERVICE_ACCOUNT,
    HA_INGRESS_FINALIZER,
    HA_SERVICE_FINALIZER,
    KUBE_APISERVER_FINALIZER,
    LOAD_BALANCER_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import (
    INGRESS,
    PROXYGROUP,
    SERVICE,
    Key,
    Object,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    spec_of,
    spec_text,
    uid,
)
from tsoperator.api.owners import SoleOwner
from tsoperator.api.rules import dns_label_error, is_true, split_tags, tag_error
from tsoperator.api.tailscaleservice import ANY_PORT, service_name
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxygroup import ProxyGroup
from tsoperator.settings import Settings

BY_LABEL: Final = "label"
"""The index of Ingresses, Services and ProxyGroups by the label that they claim, or claimed earlier.

It contains Ingresses that name a ProxyGroup; Services that name a ProxyGroup and aren't of type ExternalName;
ProxyGroups of type kube-apiserver; and all objects that still have the finalizer for a Tailscale Service.
"""

KUBE_APISERVER: Final = "kube-apiserver"
"""The type of the ProxyGroups that offer the Kubernetes API to the tailnet."""

HTTPS: Final = "tcp:443"
HTTP: Final = "tcp:80"
ENABLED: Final = "enabled"
"""The value of the annotation by which an Ingress also asks for plain HTTP."""

_FINALIZERS: Final = {
    INGRESS.kind: HA_INGRESS_FINALIZER,
    PROXYGROUP.kind: KUBE_APISERVER_FINALIZER,
    SERVICE.kind: HA_SERVICE_FINALIZER,
}


@dataclass(frozen=True, slots=True)
class LabelClaim:
    """The claim of *obj*, an Ingress, a Service or a ProxyGroup, on a *label* in the tailnet of its *group*.

    The Tailscale Service should have these *ports* and *tags*. The proxies run under the ServiceAccount *account*. If
    the claim *is_web*, they end TLS. If it *serves_http*, they also answer plain HTTP, and if it *redirects*, they
    redirect plain HTTP to HTTPS. *wrong* says why the object is invalid, and how to fix it; empty if the object is
    valid.
    """

    obj: Object
    group: str
    label: str
    ports: tuple[str, ...]
    tags: tuple[str, ...]
    is_web: bool = False
    serves_http: bool = False
    redirects: bool = False
    wrong: Sequence[str] = ()
    account: str = ""

    @property
    def sole_owner(self) -> SoleOwner | None:
        """The object, if it is a ProxyGroup: the only owner that its Tailscale Service is allowed to have.

        It is None for an Ingress or a Service, because several clusters can share their Tailscale Services.
        """
        return SoleOwner(PROXYGROUP.kind, self.key.name, uid(self.obj)) if _is_group(self.obj) else None

    @property
    def key(self) -> Key:
        """The key of the object."""
        return key_of(self.obj)

    @property
    def name(self) -> str:
        """The name of the Tailscale Service."""
        return service_name(self.label)

    @property
    def finalizer(self) -> str:
        """The finalizer that keeps the object until its Tailscale Service is gone."""
        return finalizer_of(self.obj)

    @property
    def counts(self) -> bool:
        """True if the object is valid, has the finalizer, and isn't being deleted, so that its claim can win."""
        return not self.wrong and has_finalizer(self.obj, self.finalizer) and not is_deleting(self.obj)

    @property
    def may_be_kept(self) -> bool:
        """True if the object is invalid now, but can keep the label under which proxies have served it so far."""
        return bool(self.wrong) and has_finalizer(self.obj, self.finalizer) and not is_deleting(self.obj)

    @property
    def title(self) -> str:
        """The kind and the key of the object, for messages."""
        return f"{self.obj['kind']} {self.key}"

    @property
    def rank(self) -> tuple[str, str]:
        """The rank of the claim among the claims on one label: the claim with the lowest rank wins."""
        return self.obj["metadata"].get("creationTimestamp", ""), uid(self.obj)


def claim_of(obj: Object, settings: Settings) -> LabelClaim | None:
    """Return the claim of *obj*, an Ingress, a Service or a ProxyGroup; None if it asks for no Tailscale Service."""
    if _is_group(obj):
        return _claim_of_group(obj, settings)
    if not is_hosted(obj, settings):
        return None
    given, is_web = annotations(obj), _is_ingress(obj)
    serves_http = is_web and given.get(ANNOTATION_HTTP_ENDPOINT) == ENABLED
    redirects = is_web and not serves_http and is_true(given.get(ANNOTATION_HTTP_REDIRECT))
    ports = ((HTTPS, HTTP) if serves_http or redirects else (HTTPS,)) if is_web else ANY_PORT
    tags = given.get(ANNOTATION_TAGS)
    return LabelClaim(
        obj,
        given[PROXY_GROUP],
        label_of(obj),
        ports,
        tuple(split_tags(tags) if tags else settings.proxy_tags),
        is_web,
        serves_http,
        redirects,
        [*(_ingress_faults(obj) if is_web else _service_faults(obj)), *_wrong_tags(tags)],
        given[PROXY_GROUP],
    )


def _claim_of_group(group: Object, settings: Settings) -> LabelClaim | None:
    """Return the claim of a ProxyGroup, which offers the Kubernetes API; None if it is of another type."""
    if spec_text(group, "type") != KUBE_APISERVER:
        return None
    parsed, name, label = ProxyGroup.parse(group), key_of(group).name, label_of(group)
    if isinstance(parsed, Invalid):
        return LabelClaim(group, name, label, (HTTPS,), (), is_web=True, wrong=[parsed.message])
    error = dns_label_error(label)
    wrong = [f"spec.kubeAPIServer.hostname is its name in the tailnet: {error}"] if error else []
    tags = tuple(parsed.spec.tags or settings.proxy_tags)
    return LabelClaim(group, name, label, (HTTPS,), tags, is_web=True, wrong=wrong, account=account_of(group))


def api_proxy_mode(group: Object) -> str:
    """Return the mode of the proxies of a ProxyGroup of type kube-apiserver: auth or noauth."""
    given = spec_of(group).get("kubeAPIServer")
    mode = given.get("mode") if isinstance(given, dict) else None
    return str(mode or "auth")


def impersonates(group: Object) -> bool:
    """Tell whether the proxies of a ProxyGroup impersonate users. They need the chart's ServiceAccount for that."""
    return spec_text(group, "type") == KUBE_APISERVER and api_proxy_mode(group) == "auth"


def account_of(group: Object) -> str:
    """Return the name of the ServiceAccount under which the Pods of a ProxyGroup run."""
    return AUTH_PROXY_SERVICE_ACCOUNT if impersonates(group) else key_of(group).name


def is_hosted(obj: Object, settings: Settings) -> bool:
    """Tell whether the user asks a ProxyGroup to expose *obj*, an Ingress or a Service, to the tailnet."""
    given, spec = annotations(obj), obj["spec"]
    if not given.get(PROXY_GROUP):
        return False
    if _is_ingress(obj):
        return bool(spec.get("ingressClassName") == settings.ingress_class)
    is_balanced = spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") == LOAD_BALANCER_CLASS
    return spec.get("clusterIP") not in (None, "", "None") and (is_balanced or is_true(given.get(ANNOTATION_EXPOSE)))


def winner(claims: Iterable[LabelClaim]) -> LabelClaim | None:
    """Return the claim with the lowest rank among *claims*, the candidates for one label; None if there are none."""
    return min(claims, key=lambda each: each.rank, default=None)


def by_label(obj: Object) -> Iterable[str]:
    """Return the values for the index `BY_LABEL`: the label of *obj*, or nothing.

    *obj* is an Ingress, a Service or a ProxyGroup. The result has its label if *obj* can claim one, or if *obj* still
    has the finalizer for a Tailscale Service.
    """
    return (label_of(obj),) if _may_claim(obj) or has_finalizer(obj, _FINALIZERS[obj["kind"]]) else ()


def _may_claim(obj: Object) -> bool:
    """Tell whether *obj* can claim a label.

    A ProxyGroup of type kube-apiserver can, and so can an object that names a ProxyGroup, except for an egress Service.
    """
    if obj["kind"] == PROXYGROUP.kind:
        return spec_text(obj, "type") == KUBE_APISERVER
    return bool(annotations(obj).get(PROXY_GROUP)) and obj["spec"].get("type") != "ExternalName"


def label_of(obj: Object) -> str:
    """Return the label that an Ingress, a Service or a ProxyGroup asks for, in lower case. The label can be invalid."""
    key = key_of(obj)
    if _is_group(obj):
        given = spec_of(obj).get("kubeAPIServer")
        hostname = given.get("hostname") if isinstance(given, dict) else None
        return str(hostname or key.name).lower()
    if _is_ingress(obj):
        hosts = [host for entry in obj["spec"].get("tls") or () for host in entry.get("hosts") or ()]
        first = hosts[0].partition(".")[0] if hosts else ""
        return (first or f"{key.namespace}-{key.name}-ingress").lower()
    return (annotations(obj).get(ANNOTATION_HOSTNAME) or f"{key.namespace}-{key.name}").lower()


def finalizer_of(obj: Object) -> str:
    """Return the finalizer that keeps an Ingress, a Service or a ProxyGroup until its Tailscale Service is gone."""
    finalizer: str = _FINALIZERS[obj["kind"]]
    return finalizer


def _is_ingress(obj: Object) -> bool:
    return bool(obj["kind"] == INGRESS.kind)


def _is_group(obj: Object) -> bool:
    return bool(obj["kind"] == PROXYGROUP.kind)


def _ingress_faults(ingress: Object) -> Iterator[str]:
    entries = ingress["spec"].get("tls") or ()
    if len(entries) > 1 or any(len(entry.get("hosts") or ()) > 1 for entry in entries):
        yield (
            "spec.tls has more than one host, and a ProxyGroup serves an Ingress under one name: make an Ingress of "
            "its own for each further host"
        )
    if error := dns_label_error(label_of(ingress)):
        yield f"the first label of spec.tls[0].hosts[0] is its name in the tailnet: {error}"


def _service_faults(service: Object) -> Iterator[str]:
    if error := dns_label_error(label_of(service)):
        given = ANNOTATION_HOSTNAME in annotations(service)
        where = f"annotation {ANNOTATION_HOSTNAME}" if given else "the default hostname"
        cure = "" if given else f": set annotation {ANNOTATION_HOSTNAME} to a shorter one"
        yield f"{where}: {error}{cure}"


def _wrong_tags(tags: str | None) -> list[str]:
    found = (tag_error(each) for each in split_tags(tags)) if tags else ()
    return [f"annotation {ANNOTATION_TAGS}: {error}" for error in found if error]
