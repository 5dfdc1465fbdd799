"""Looks, decides, acts and reports for one Ingress at a time."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from tsoperator.api.names import PARENT_INGRESS
from tsoperator.api.objects import (
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
from tsoperator.desired.children import first, is_child, owned_keys
from tsoperator.desired.classref import class_name
from tsoperator.desired.findings import told
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxy import Children, proxy_device
from tsoperator.desired.secret import certificate_of
from tsoperator.reconcilers.ingress import desired
from tsoperator.reconcilers.ingress.certificate import Missed, Seen
from tsoperator.reconcilers.ingress.serve import backend_names
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import Result

log = logging.getLogger(__name__)

BY_BACKEND = "backend"
"""The index of Ingresses by the ``namespace/name`` of the Services that they name."""

_UNSEEN = 60.0  # s until another look at an Ingress in whose namespace the operator could not see Services yet


def by_backend(ingress: Object) -> Iterable[str]:
    """Index Ingresses by their backends."""
    namespace = ingress["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in backend_names(ingress)}


class IngressReconciler:
    """Makes Ingresses of our class and their proxies right."""

    name = "ingress"

    def __init__(
        self, proxies: Proxies, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._settings = proxies.settings
        self._now = now
        self._missed = Missed(clock)
        self._class_warning = ""
        self.watches: Mapping[Resource, Mapper] = {
            INGRESS: lambda ingress: (key_of(ingress),),
            **dict.fromkeys((SECRET, STATEFULSET, POD, SERVICEMONITOR), self._parent_keys),
            SERVICE: self._keys_of_service,
            PROXYCLASS: self._keys_of_class,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Ingress named *key*."""
        ingress = self._cache.get(INGRESS, key)
        if ingress is None:
            self._missed.forget(key)
            return await self._proxies.clear_away(INGRESS, desired.owner(key))
        self._proxies.keep(desired.owner(key))
        observed = self._observe(ingress)
        result = await self._proxies.carry_out(ingress, self._decide(ingress, observed), desired.failed)
        if observed.certificate is None or observed.certificate.certificate.is_there:
            self._missed.forget(key)  # now that it has been told
        return result

    def _observe(self, ingress: Object) -> desired.Observed:
        key = key_of(ingress)
        services = {
            name: service
            for name in backend_names(ingress)
            if (service := self._cache.get(SERVICE, Key(key.namespace, name)))
        }
        children = self._proxies.children(desired.owner(key))
        return desired.Observed(
            children,
            services,
            self._proxies.proxy_class(class_name(ingress, self._settings.proxy_class)),
            self._certificate(key, children),
        )

    def _certificate(self, key: Key, children: Children) -> Seen | None:
        """Return what there is of the certificate; None where there is to be none."""
        device, secret = proxy_device(children), first(children.secrets)
        if device is None or secret is None or not device.https_name:
            return None
        certificate = certificate_of(secret, device.https_name)
        missed_for = self._missed.look(key, device.https_name, certificate)
        return Seen(device.https_name, certificate, self._now(), missed_for)

    async def _decide(self, ingress: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(ingress, self._settings):
            return desired.plan_deletion(ingress, observed)
        self._look_at_class()
        if not self._cache.knows(SERVICE, key_of(ingress).namespace):
            return Plan(requeue_after=_UNSEEN)  # its backends may be there, so what they have stays
        if plan := desired.refusal(ingress, observed, self._settings):
            return plan
        proxy = desired.proxy(ingress, observed, self._settings)
        findings = await self._proxies.findings(proxy, observed.children)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        plan = desired.plan(ingress, observed, self._settings, auth_keys)
        return told(plan, findings)

    def _look_at_class(self) -> None:
        """Log what is wrong with the IngressClass, once: an Ingress of that class is served all the same."""
        name = self._settings.ingress_class
        warning = desired.class_warning(self._cache.get(INGRESSCLASS, Key("", name)), name)
        if warning and warning != self._class_warning:
            log.warning("%s", warning)
        self._class_warning = warning

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, any other to the Ingresses that name it."""
        if is_child(service, self._settings.namespace):
            return self._parent_keys(service)
        backend = str(key_of(service))
        return [key_of(ingress) for ingress in self._cache.indexed(INGRESS, BY_BACKEND, backend)]

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(ingress)
            for ingress in self._cache.all(INGRESS)
            if desired.is_ours(ingress, self._settings) and class_name(ingress, self._settings.proxy_class) == name
        ]

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_INGRESS, self._settings.namespace)
