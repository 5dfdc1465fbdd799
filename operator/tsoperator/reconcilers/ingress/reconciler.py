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
from tsoperator.authkeys import AuthKeys
from tsoperator.desired.children import is_child, owned_keys
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxyclass import class_name
from tsoperator.kube.errors import Denied, Invalid
from tsoperator.observed import children_of
from tsoperator.reconcilers.ingress import desired
from tsoperator.reconcilers.ingress.serve import backend_names
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings
from tsoperator.tsclient.errors import ControlError

BY_BACKEND = "backend"
"""The index of Ingresses by the ``namespace/name`` of the Services that they name."""


def by_backend(ingress: Object) -> Iterable[str]:
    """Index Ingresses by their backends."""
    namespace = ingress["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in backend_names(ingress)}


class IngressReconciler:
    """Makes Ingresses of our class and their proxies right."""

    name = "ingress"

    def __init__(self, cache: Cache, applier: Applier, auth_keys: AuthKeys, settings: Settings) -> None:
        self._cache = cache
        self._applier = applier
        self._auth_keys = auth_keys
        self._settings = settings
        self.watches: Mapping[Resource, Mapper] = {
            INGRESS: lambda ingress: (key_of(ingress),),
            SECRET: _parent_keys,
            STATEFULSET: _parent_keys,
            SERVICEMONITOR: _parent_keys,
            POD: _parent_keys,
            SERVICE: self._keys_of_service,
            PROXYCLASS: self._keys_of_class,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Ingress named *key*."""
        ingress = self._cache.get(INGRESS, key)
        if ingress is None:
            return DONE
        observed = self._observe(ingress)
        try:
            plan = await self._decide(ingress, observed)
            ingress = await self._applier.apply(ingress, plan)
        except (ControlError, Denied, Invalid) as error:
            await self._applier.apply(ingress, desired.failed(str(error)))
            raise
        await self._applier.report(ingress, plan)
        return Result(plan.requeue_after)

    def _observe(self, ingress: Object) -> desired.Observed:
        key = key_of(ingress)
        services = {
            name: service
            for name in backend_names(ingress)
            if (service := self._cache.get(SERVICE, Key(key.namespace, name)))
        }
        class_key = Key("", class_name(ingress, self._settings.proxy_class))
        return desired.Observed(
            children_of(self._cache, desired.owner(key)), services, self._cache.get(PROXYCLASS, class_key)
        )

    async def _decide(self, ingress: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(ingress, self._settings):
            return desired.plan_deletion(ingress, observed)
        if plan := desired.refusal(ingress, observed, self._settings):
            return plan
        proxy = desired.proxy(ingress, observed, self._settings)
        auth_key = await self._auth_keys.for_proxy(proxy, observed.children, self._settings)
        return desired.plan(ingress, observed, self._settings, auth_key)

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, any other to the Ingresses that name it."""
        if is_child(service):
            return _parent_keys(service)
        backend = str(key_of(service))
        return [key_of(ingress) for ingress in self._cache.indexed(INGRESS, BY_BACKEND, backend)]

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(ingress)
            for ingress in self._cache.all(INGRESS)
            if desired.is_ours(ingress, self._settings) and class_name(ingress, self._settings.proxy_class) == name
        ]


def _parent_keys(child: Object) -> Iterable[Key]:
    return owned_keys(child, PARENT_INGRESS)
