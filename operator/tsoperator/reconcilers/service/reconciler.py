"""Looks, decides, acts and reports for one Service at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import CONDITION_PROXY_READY, PARENT_SERVICE
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
from tsoperator.desired.findings import told
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
            SERVICE: _service_keys,
            SECRET: _parent_keys,
            STATEFULSET: _parent_keys,
            POD: _parent_keys,
            SERVICEMONITOR: _parent_keys,
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
        findings = await self._proxies.findings(proxy, observed.children)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        plan = desired.plan(service, observed, self._settings, auth_keys)
        return told(plan, findings, condition=CONDITION_PROXY_READY, reasons=desired.DEVICE_REASONS)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(service)
            for service in self._cache.all(SERVICE)
            if not desired.is_leaving(service, self._settings)
            and class_name(service, self._settings.proxy_class) == name
        ]


def _parent_keys(child: Object) -> Iterable[Key]:
    return owned_keys(child, PARENT_SERVICE)


def _service_keys(service: Object) -> Iterable[Key]:
    """Map a proxy's own Services to its parent, any other to itself."""
    return _parent_keys(service) if is_child(service) else (key_of(service),)
