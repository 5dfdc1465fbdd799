"""Looks, decides, acts and reports for one Connector at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import PARENT_CONNECTOR
from tsoperator.api.objects import (
    CONNECTOR,
    DEVICE,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.reconcilers.connector import desired
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import owned_keys
from tsoperator.runtime.result import Result


class ConnectorReconciler:
    """Makes Connectors and their proxies right."""

    name = "connector"

    def __init__(self, proxies: Proxies, applier: Applier) -> None:
        self._proxies = proxies
        self._applier = applier
        self._cache = proxies.cache
        self._settings = proxies.settings
        self.watches: Mapping[Resource, Mapper] = {
            CONNECTOR: lambda connector: (key_of(connector),),
            **dict.fromkeys((SERVICE, SERVICEMONITOR, STATEFULSET, SECRET, POD), self._parent_keys),
            PROXYCLASS: self._keys_of_class,
            TAILNET: self._keys_of_tailnet,
            DEVICE: lambda device: proxies.parents_of_device(device, PARENT_CONNECTOR),
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Connector named *key*."""
        obj, owner = self._cache.get(CONNECTOR, key), desired.owner(key.name)
        if obj is None:
            return await self._proxies.remove_orphan(CONNECTOR, owner)
        observed = self._observe(obj)  # look
        connector = Connector.parse(obj)
        wanted = desired.wanted(obj, connector, observed, self._settings)  # decide ...
        keys = await self._proxies.auth_keys(obj, wanted, observed.children)  # (mint auth keys)
        plan = desired.plan(obj, wanted, connector, observed, self._settings, keys)  # ... decide
        stored = await self._applier.act(obj, plan, desired.failed)  # act
        return await self._proxies.report(owner, stored, plan, desired.failed)  # report

    def _observe(self, obj: Object) -> desired.Observed:
        owner = desired.owner(key_of(obj).name)
        self._proxies.found(owner)
        children, tailnet = self._proxies.children(owner), desired.tailnet_name(obj)
        return desired.Observed(
            children,
            self._proxies.proxy_class(desired.class_name(obj)),
            self._proxies.tailnet(tailnet, owner, children),
        )

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        return [key_of(obj) for obj in self._cache.all(CONNECTOR) if desired.class_name(obj) == name]

    def _keys_of_tailnet(self, tailnet: Object) -> Iterable[Key]:
        name = key_of(tailnet).name
        return [key_of(obj) for obj in self._cache.all(CONNECTOR) if desired.tailnet_name(obj) == name]

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_CONNECTOR, self._settings.namespace)
