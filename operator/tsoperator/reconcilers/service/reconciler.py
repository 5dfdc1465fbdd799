"""Looks, decides, acts and reports for one Service at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import (
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
from tsoperator.reconcilers.service import desired
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result


class ServiceReconciler:
    """Makes Services that leave the cluster or are exposed to the tailnet, and their proxies, right."""

    name = "service"

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._settings = proxies.settings
        self.watches: Mapping[Resource, Mapper] = {
            SERVICE: self._keys_of_service,
            **dict.fromkeys((SECRET, STATEFULSET, POD, SERVICEMONITOR), self._parent_keys),
            PROXYCLASS: self._keys_of_class,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Service named *key*."""
        service = self._cache.get(SERVICE, key)
        if service is None:
            return DONE
        decision = self._decide(service, self._observe(service))
        return await self._proxies.carry_out(service, decision, desired.failed)

    def _observe(self, service: Object) -> desired.Observed:
        return desired.Observed(
            self._proxies.children(desired.owner(key_of(service))),
            self._proxies.proxy_class(class_name(service, self._settings.proxy_class)),
        )

    async def _decide(self, service: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(service, self._settings):
            return desired.plan_deletion(service, observed)
        if plan := desired.refusal(service, observed, self._settings):
            return plan
        proxy = desired.proxy(service, self._settings, observed.proxy_class)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        return desired.plan(service, observed, self._settings, auth_keys)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(service)
            for service in self._cache.all(SERVICE)
            if not desired.is_leaving(service, self._settings)
            and class_name(service, self._settings.proxy_class) == name
        ]

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, any other to itself."""
        return self._parent_keys(service) if is_child(service, self._settings.namespace) else (key_of(service),)

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_SERVICE, self._settings.namespace)
