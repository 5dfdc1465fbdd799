"""Gathers the facts about Ingresses that `plan` needs."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from tsoperator.api.names import PARENT_INGRESS
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    DNSCONFIG,
    IDENTITY,
    INGRESS,
    INGRESSCLASS,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    key_of,
)
from tsoperator.api.tailscaleservice import service_name
from tsoperator.dns.clusternames import names_ingresses
from tsoperator.dns.nameserver import before
from tsoperator.group.hosted import Hosting
from tsoperator.group.hostnotes import APPROVAL_PATIENCE
from tsoperator.proxy.certificate import MissingCertificate, ObservedCertificate, missing
from tsoperator.proxy.classref import class_name
from tsoperator.proxy.paths import BY_BACKEND
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import TLS, Certificate, certificate_of, device_of
from tsoperator.proxy.workload import proxy_device
from tsoperator.reconcilers.hosting import HostingChanges, HostingView
from tsoperator.reconcilers.ingress import plan as plans
from tsoperator.reconcilers.ingress.ask import Ask, IngressMode, is_ours, parse
from tsoperator.reconcilers.ingress.grouped import NOWHERE, Approval, AtGroups, may_lack_approval
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.runtime.clock import loop_time, utc_now
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import first, is_child, owned_keys
from tsoperator.runtime.plan import Plan
from tsoperator.tailnet.tailnet import OWN

log = logging.getLogger(__name__)


def ingresses(
    proxies: Proxies,
    hosting: HostingView,
    now: Callable[[], datetime] = utc_now,
    clock: Callable[[], float] = loop_time,
) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of Ingresses: each has a proxy of its own, or a ProxyGroup serves it.

    *now* is the wall clock, and *clock* a monotonic one.
    """
    view = _View(proxies, hosting, now, clock)
    return replace(proxies.kind(INGRESS, view.watches, parse, view.look, plans), acted=view.acted)


class _View:
    """Gathers the facts about Ingresses, and finds the Ingresses that a change concerns."""

    def __init__(
        self, proxies: Proxies, hosting: HostingView, now: Callable[[], datetime], clock: Callable[[], float]
    ) -> None:
        self._proxies = proxies
        self._hosting = hosting
        self._cache = proxies.cache
        self._settings = proxies.settings
        self._now = now
        self._clock = clock
        self._missing = Memory[MissingCertificate](self._cache)
        self._unserved = Memory[datetime](self._cache)  # since when an Ingress perhaps lacks approved hosts
        self._changes = changes = HostingChanges(self._cache, INGRESS)
        self._class_warning = ""
        self.watches: Watches = {
            INGRESS: lambda ingress: {key_of(ingress), *changes.of_claimant(ingress)},
            **dict.fromkeys((STATEFULSET, POD, SERVICEMONITOR), self._parent_keys),
            SECRET: Comparison(self._keys_of_secret),
            SERVICE: self._keys_of_service,
            PROXYCLASS: self._keys_of_class,
            PROXYGROUP: Comparison(changes.of_group),
            CONFIGMAP: Comparison(changes.of_configmap),
            TAILSCALE_SERVICE: changes.of_service,
            IDENTITY: changes.of_identity,
            DEVICE: lambda device: proxies.parents_of_device(device, PARENT_INGRESS),
            DNSCONFIG: Comparison(self._keys_of_dnsconfig),
        }

    def acted(self, ingress: Object, seen: Seen[Ask, plans.Observed] | Plan, _plan: Plan) -> None:
        """Forget that the certificate of *ingress* was missing, if it is there now or isn't needed.

        The Events of the plan, such as the one that the certificate is there now, have been written already.
        """
        found = seen.observed.certificate if isinstance(seen, Seen) else None
        if ingress and (found is None or found.certificate.is_there):
            self._missing.note(ingress, None)

    def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about an Ingress."""
        if ask.ingress_class == self._settings.ingress_class:
            self._warn_of_class()
        namespace, children = ask.key.namespace, self._proxies.children(ask.owner)
        backends = {name: self._cache.get(SERVICE, Key(namespace, name)) for name in ask.backends}
        at_groups = self._at_groups(ask)
        certificate = self._certificate(ask.ingress, children)
        if at_groups.hosting and not certificate:
            if not at_groups.without_https:
                certificate = self._hosted_certificate(ask.ingress, at_groups.hosting)
            approval = self._approval(ask, at_groups.hosting, certificate)
            at_groups = replace(at_groups, approval=approval)
        return plans.Observed(
            children,
            {name: service for name, service in backends.items() if service},
            self._proxies.proxy_class(ask.class_name),
            certificate,
            self._proxies.tailnet(OWN, ask.owner, children),
            self._cache.knows(SERVICE, namespace),
            class_exists=self._cache.get(INGRESSCLASS, Key("", ask.ingress_class)) is not None,
            names_ingresses=names_ingresses(self._cache.all(DNSCONFIG)),
            age=self._age(ask.ingress),
            at_groups=at_groups,
        )

    def _at_groups(self, ask: Ask) -> AtGroups:
        """Return the facts about an Ingress and its ProxyGroups."""
        hosting = self._hosting.look(ask.ingress, with_hosts=False) if ask.mode is IngressMode.GROUP else None
        if hosting is None:
            return AtGroups(left=self._hosting.remainder(ask.ingress)) if ask.is_held else NOWHERE
        pods = ((state, self._cache.get(POD, key_of(state))) for state in hosting.states)
        devices = (device_of(state, pod) for state, pod in pods)
        return AtGroups(
            hosting,
            without_https=next((each for each in devices if each.serves_no_https), None),
            is_advertised=self._hosting.is_advertised(service_name(ask.shown_name.partition(".")[0])),
        )

    def _approval(self, ask: Ask, hosting: Hosting, certificate: ObservedCertificate | None) -> Approval | None:
        """Return how long an Ingress has waited for an approved host.

        Return None if a host is certainly approved, or if the Ingress needs no approval.
        """
        if not may_lack_approval(ask, hosting, certificate):
            self._unserved.note(ask.ingress, None)
            return None
        now = self._now()
        since = self._unserved.get(ask.ingress) or now
        self._unserved.note(ask.ingress, since)
        waited = (now - since).total_seconds()
        if waited < APPROVAL_PATIENCE:
            return Approval(waited)
        view = self._hosting.hosts(hosting)
        return Approval(waited, None if view.pending else view.hosts, view.pending)

    def _age(self, ingress: Object) -> float:
        made = datetime.fromisoformat(ingress["metadata"]["creationTimestamp"])
        return (self._now() - made).total_seconds()

    def _certificate(self, ingress: Object, children: Children) -> ObservedCertificate | None:
        """Return the state of the certificate of an Ingress; None if the Ingress needs none."""
        device, secret = proxy_device(children), first(children.secrets)
        if device is None or secret is None or not device.https_name:
            return None
        return self._observed(ingress, device.https_name, certificate_of(secret, device.https_name))

    def _hosted_certificate(self, ingress: Object, hosting: Hosting) -> ObservedCertificate | None:
        """Return the state of the certificate of an Ingress of a group; None if nobody has asked for one yet."""
        secret = self._cache.get(SECRET, Key(self._settings.namespace, hosting.dns_name))
        if secret is None or not hosting.dns_name:
            return None
        seen = self._observed(ingress, hosting.dns_name, certificate_of(secret, TLS))
        return replace(seen, writer=f"{hosting.claim.group}-0")

    def _observed(self, ingress: Object, domain: str, certificate: Certificate) -> ObservedCertificate:
        now = self._clock()
        since = missing(self._missing.get(ingress), domain, certificate, now)
        self._missing.note(ingress, since)
        missed_for = None if since is None else now - since.at
        return ObservedCertificate(domain, certificate, self._now(), missed_for)

    def _warn_of_class(self) -> None:
        """Log once what is wrong with the IngressClass. Its Ingresses are served nevertheless."""
        name = self._settings.ingress_class
        warning = plans.class_warning(self._cache.get(INGRESSCLASS, Key("", name)), name)
        if warning and warning != self._class_warning:
            log.warning("%s", warning)
        self._class_warning = warning

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Return the Ingresses that a change of *service* concerns.

        If *service* belongs to a proxy, this is the parent of the proxy. Any other Service concerns the Ingresses that
        lead to it, and those that ask for the same label in a tailnet.
        """
        if is_child(service, self._settings.namespace):
            return self._parent_keys(service)
        backend = str(key_of(service))
        leading = [key_of(ingress) for ingress in self._cache.indexed(INGRESS, BY_BACKEND, backend)]
        return [*leading, *self._changes.of_claimant(service)]

    def _keys_of_secret(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return the Ingresses that a change of a Secret concerns.

        The Secret of a standalone proxy concerns the parent of the proxy. The Secret of a ProxyGroup concerns the
        Ingresses that `HostingChanges.of_secret` finds.
        """
        parents = [key for each in (old, new) if each for key in self._parent_keys(each)]
        return [*parents, *self._changes.of_secret(old, new)]

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(ingress)
            for ingress in self._cache.all(INGRESS)
            if is_ours(ingress, self._settings) and class_name(ingress, self._settings.proxy_class) == name
        ]

    def _keys_of_dnsconfig(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Return all Ingresses of our class if a DNSConfig has begun or ceased to give them names for Pods."""
        there = self._cache.all(DNSCONFIG)
        if names_ingresses(there) == names_ingresses(before(there, old, new)):
            return ()
        return [key_of(each) for each in self._cache.all(INGRESS) if is_ours(each, self._settings)]

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_INGRESS, self._settings.namespace)
