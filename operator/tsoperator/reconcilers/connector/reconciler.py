"""Looks, decides, acts and reports for one Connector at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import CONDITION_CONNECTOR_READY, PARENT_CONNECTOR
from tsoperator.api.objects import (
    CONNECTOR,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    Key,
    Object,
    Resource,
    is_deleting,
    key_of,
)
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.desired.children import owned_keys
from tsoperator.desired.findings import told
from tsoperator.desired.plan import Plan
from tsoperator.reconcilers.connector import desired
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result


class ConnectorReconciler:
    """Makes Connectors and their proxies right."""

    name = "connector"

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies
        self._cache = proxies.cache
        self._settings = proxies.settings
        self.watches: Mapping[Resource, Mapper] = {
            CONNECTOR: lambda connector: (key_of(connector),),
            **dict.fromkeys((SERVICE, SERVICEMONITOR, STATEFULSET, SECRET, POD), self._parent_keys),
            PROXYCLASS: self._keys_of_class,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Connector named *key*."""
        obj = self._cache.get(CONNECTOR, key)
        if obj is None:
            return DONE
        decision = self._decide(obj, self._observe(obj))
        return await self._proxies.carry_out(obj, decision, desired.failed)

    def _observe(self, obj: Object) -> desired.Observed:
        return desired.Observed(
            self._proxies.children(desired.owner(key_of(obj).name)),
            self._proxies.proxy_class(desired.class_name(obj)),
        )

    async def _decide(self, obj: Object, observed: desired.Observed) -> Plan:
        if is_deleting(obj):
            return desired.plan_deletion(obj, observed)
        connector = Connector.parse(obj)
        if isinstance(connector, Invalid):
            return desired.invalid(obj, connector.message)
        if plan := desired.refusal(obj, connector, observed):
            return plan
        proxy = desired.proxy(connector, self._settings, observed.proxy_class)
        findings = await self._proxies.findings(proxy, observed.children)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        plan = desired.plan(obj, connector, observed, self._settings, auth_keys)
        return told(plan, findings, condition=CONDITION_CONNECTOR_READY, reasons=desired.DEVICE_REASONS)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        return [key_of(obj) for obj in self._cache.all(CONNECTOR) if desired.class_name(obj) == name]

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_CONNECTOR, self._settings.namespace)
