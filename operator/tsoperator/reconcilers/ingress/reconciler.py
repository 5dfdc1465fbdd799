"""Gathers the facts about Ingresses that `plan` needs."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from tsoperator.api.names import PARENT_INGRESS
from tsoperator.api.objects import (
    DEVICE,
    DNSCONFIG,
    INGRESS,
    INGRESSCLASS,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.dns.clusternames import names_ingresses
from tsoperator.dns.nameserver import before
from tsoperator.proxy.classref import class_name
from tsoperator.proxy.paths import BY_BACKEND
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import certificate_of
from tsoperator.proxy.workload import proxy_device
from tsoperator.reconcilers.ingress import plan as plans
from tsoperator.reconcilers.ingress.ask import Ask, is_ours, parse
from tsoperator.reconcilers.ingress.certificate import MissingCertificate, ObservedCertificate, missing
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Mapper
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import first, is_child, owned_keys
from tsoperator.runtime.plan import Plan
from tsoperator.tailnet.tailnet import OWN

log = logging.getLogger(__name__)


def ingresses(
    proxies: Proxies, now: Callable[[], datetime] = utc_now, clock: Callable[[], float] = time.monotonic
) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of Ingresses, which makes a proxy for each Ingress of our class.

    *now* is the wall clock, and *clock* a monotonic one.
    """
    view = _View(proxies, now, clock)
    watches: Mapping[Resource, Mapper] = {
        INGRESS: lambda ingress: (key_of(ingress),),
        **dict.fromkeys((SECRET, STATEFULSET, POD, SERVICEMONITOR), view.parent_keys),
        SERVICE: view.keys_of_service,
        PROXYCLASS: view.keys_of_class,
        DEVICE: lambda device: proxies.parents_of_device(device, PARENT_INGRESS),
        DNSCONFIG: Comparison(view.keys_of_dnsconfig),
    }
    return replace(proxies.kind(INGRESS, watches, parse, view.look, plans), acted=view.acted)


class _View:
    """Gathers the facts about Ingresses, and finds the Ingresses that a change concerns."""

    def __init__(self, proxies: Proxies, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._settings = proxies.settings
        self._now = now
        self._clock = clock
        self._missing = Memory[MissingCertificate](self._cache)
        self._class_warning = ""

    def acted(self, ingress: Object, seen: Seen[Ask, plans.Observed] | Plan, _plan: Plan) -> None:
        """Forget that the certificate of *ingress* was missing, once an Event has said that it is there."""
        found = seen.observed.certificate if isinstance(seen, Seen) else None
        if ingress and (found is None or found.certificate.is_there):
            self._missing.note(ingress, None)

    def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about an Ingress."""
        if ask.ingress_class == self._settings.ingress_class:
            self._warn_of_class()
        namespace, children = ask.key.namespace, self._proxies.children(ask.owner)
        backends = {name: self._cache.get(SERVICE, Key(namespace, name)) for name in ask.backends}
        return plans.Observed(
            children,
            {name: service for name, service in backends.items() if service},
            self._proxies.proxy_class(ask.class_name),
            self._certificate(ask.ingress, children),
            self._proxies.tailnet(OWN, ask.owner, children),
            self._cache.knows(SERVICE, namespace),
            class_exists=self._cache.get(INGRESSCLASS, Key("", ask.ingress_class)) is not None,
            names_ingresses=names_ingresses(self._cache.all(DNSCONFIG)),
            age=self._age(ask.ingress),
        )

    def _age(self, ingress: Object) -> float:
        made = datetime.fromisoformat(ingress["metadata"]["creationTimestamp"])
        return (self._now() - made).total_seconds()

    def _certificate(self, ingress: Object, children: Children) -> ObservedCertificate | None:
        """Return the state of the certificate of an Ingress; None if the Ingress needs none."""
        device, secret = proxy_device(children), first(children.secrets)
        if device is None or secret is None or not device.https_name:
            return None
        certificate = certificate_of(secret, device.https_name)
        now = self._clock()
        since = missing(self._missing.get(ingress), device.https_name, certificate, now)
        self._missing.note(ingress, since)
        missed_for = None if since is None else now - since.at
        return ObservedCertificate(device.https_name, certificate, self._now(), missed_for)

    def _warn_of_class(self) -> None:
        """Log once what is wrong with the IngressClass; its Ingresses are served all the same."""
        name = self._settings.ingress_class
        warning = plans.class_warning(self._cache.get(INGRESSCLASS, Key("", name)), name)
        if warning and warning != self._class_warning:
            log.warning("%s", warning)
        self._class_warning = warning

    def keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, and any other Service to the Ingresses that name it."""
        if is_child(service, self._settings.namespace):
            return self.parent_keys(service)
        backend = str(key_of(service))
        return [key_of(ingress) for ingress in self._cache.indexed(INGRESS, BY_BACKEND, backend)]

    def keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(ingress)
            for ingress in self._cache.all(INGRESS)
            if is_ours(ingress, self._settings) and class_name(ingress, self._settings.proxy_class) == name
        ]

    def keys_of_dnsconfig(self, old: Object | None, new: Object | None) -> Iterable[Key]:
        """Map a DNSConfig to all Ingresses if it has begun or ceased to give them names for Pods."""
        there = self._cache.all(DNSCONFIG)
        if names_ingresses(there) == names_ingresses(before(there, old, new)):
            return ()
        return [key_of(each) for each in self._cache.all(INGRESS) if is_ours(each, self._settings)]

    def parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_INGRESS, self._settings.namespace)
