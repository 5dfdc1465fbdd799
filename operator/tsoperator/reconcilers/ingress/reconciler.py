"""Looks, decides, acts and reports for one Ingress at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import PARENT_INGRESS
from tsoperator.api.objects import (
    INGRESS,
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
from tsoperator.desired.children import is_child, owned_keys
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxyclass import class_name
from tsoperator.proxies import Proxies
from tsoperator.reconcilers.ingress import desired
from tsoperator.reconcilers.ingress.serve import backend_names
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result

BY_BACKEND = "backend"
"""The index of Ingresses by the ``namespace/name`` of the Services that they name."""


def by_backend(ingress: Object) -> Iterable[str]:
    """Index Ingresses by their backends."""
    namespace = ingress["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in backend_names(ingress)}


class IngressReconciler:
    """Makes Ingresses of our class and their proxies right."""

    name = "ingress"

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._settings = proxies.settings
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
            return DONE
        decision = self._decide(ingress, self._observe(ingress))
        return await self._proxies.carry_out(ingress, decision, desired.failed)

    def _observe(self, ingress: Object) -> desired.Observed:
        key = key_of(ingress)
        services = {
            name: service
            for name in backend_names(ingress)
            if (service := self._cache.get(SERVICE, Key(key.namespace, name)))
        }
        return desired.Observed(
            self._proxies.children(desired.owner(key)),
            services,
            self._proxies.proxy_class(class_name(ingress, self._settings.proxy_class)),
        )

    async def _decide(self, ingress: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(ingress, self._settings):
            return desired.plan_deletion(ingress, observed)
        if plan := desired.refusal(ingress, observed, self._settings):
            return plan
        proxy = desired.proxy(ingress, observed, self._settings)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        return desired.plan(ingress, observed, self._settings, auth_keys)

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
