"""Looks, decides, acts and reports for one Connector at a time."""

from collections.abc import Iterable, Mapping

from tsoperator.api.names import PARENT_CONNECTOR
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
from tsoperator.authkeys import AuthKeys
from tsoperator.desired.children import owned_keys
from tsoperator.desired.plan import Plan
from tsoperator.desired.statefulset import replicas
from tsoperator.kube.errors import Denied
from tsoperator.kube.errors import Invalid as NotAccepted
from tsoperator.observed import children_of
from tsoperator.reconcilers.connector import desired
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings
from tsoperator.tsclient.errors import ControlError


class ConnectorReconciler:
    """Makes Connectors and their proxies right."""

    name = "connector"

    def __init__(self, cache: Cache, applier: Applier, auth_keys: AuthKeys, settings: Settings) -> None:
        self._cache = cache
        self._applier = applier
        self._auth_keys = auth_keys
        self._settings = settings
        self.watches: Mapping[Resource, Mapper] = {
            CONNECTOR: lambda connector: (key_of(connector),),
            **dict.fromkeys((SERVICE, SERVICEMONITOR, STATEFULSET, SECRET, POD), _parent_keys),
            PROXYCLASS: self._keys_of_class,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Connector named *key*."""
        obj = self._cache.get(CONNECTOR, key)
        if obj is None:
            return DONE
        observed = self._observe(obj)
        try:
            plan = await self._decide(obj, observed)
            obj = await self._applier.apply(obj, plan)
        except (ControlError, Denied, NotAccepted) as error:
            plan = desired.failed(obj, str(error))
            await self._applier.report(await self._applier.apply(obj, plan), plan)
            raise
        await self._applier.report(obj, plan)
        return Result(plan.requeue_after)

    def _observe(self, obj: Object) -> desired.Observed:
        return desired.Observed(
            children_of(self._cache, desired.owner(key_of(obj).name)),
            self._cache.get(PROXYCLASS, Key("", desired.class_name(obj))),
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
        auth_keys = {
            ordinal: await self._auth_keys.for_proxy(proxy, observed.children, self._settings, ordinal)
            for ordinal in range(replicas(proxy.target))
        }
        return desired.plan(obj, connector, observed, self._settings, auth_keys)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = key_of(proxy_class).name
        return [key_of(obj) for obj in self._cache.all(CONNECTOR) if desired.class_name(obj) == name]


def _parent_keys(child: Object) -> Iterable[Key]:
    return owned_keys(child, PARENT_CONNECTOR)
