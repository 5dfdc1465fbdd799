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
from tsoperator.authkeys import AuthKeys
from tsoperator.desired.children import is_child, owned_keys
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxyclass import class_name
from tsoperator.kube.errors import Denied, Invalid
from tsoperator.observed import children_of
from tsoperator.reconcilers.service import desired
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings
from tsoperator.tsclient.errors import ControlError


class ServiceReconciler:
    """Makes Services that leave the cluster or are exposed to the tailnet, and their proxies, right."""

    name = "service"

    def __init__(self, cache: Cache, applier: Applier, auth_keys: AuthKeys, settings: Settings) -> None:
        self._cache = cache
        self._applier = applier
        self._auth_keys = auth_keys
        self._settings = settings
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
        observed = self._observe(service)
        try:
            plan = await self._decide(service, observed)
            service = await self._applier.apply(service, plan)
        except (ControlError, Denied, Invalid) as error:
            await self._applier.report(service, desired.failed(service, str(error)))
            raise
        await self._applier.report(service, plan)
        return Result(plan.requeue_after)

    def _observe(self, service: Object) -> desired.Observed:
        class_key = Key("", class_name(service, self._settings.proxy_class))
        return desired.Observed(
            children_of(self._cache, desired.owner(key_of(service))), self._cache.get(PROXYCLASS, class_key)
        )

    async def _decide(self, service: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(service, self._settings):
            return desired.plan_deletion(service, observed)
        if plan := desired.refusal(service, observed, self._settings):
            return plan
        proxy = desired.proxy(service, self._settings, observed.proxy_class)
        auth_key = await self._auth_keys.for_proxy(proxy, observed.children, self._settings)
        return desired.plan(service, observed, self._settings, auth_key)

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
