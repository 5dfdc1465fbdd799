"""Looks, decides, acts and reports for one Service at a time."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

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
from tsoperator.desired.classref import class_name
from tsoperator.desired.findings import told
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxy import Proxy, proxy_key
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.service import desired, egress, exposure
from tsoperator.reconcilers.service.rewrites import PEACE, Rewrites, Rivalry
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import Result


class ServiceReconciler:
    """Makes Services that leave the cluster or are exposed to the tailnet, and their proxies, right."""

    name = "service"

    def __init__(self, proxies: Proxies, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._proxies = proxies
        self._client = client
        self._rewrites = Rewrites(clock)
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
            self._rewrites.forget(key)
            return await self._proxies.clear_away(SERVICE, desired.owner(key))
        self._proxies.keep(desired.owner(key))
        decision = self._decide(service, self._observe(service))
        return await self._proxies.carry_out(service, decision, desired.failed, partial(self._acted, service))

    def _acted(self, service: Object, plan: Plan) -> None:
        if desired.rewrites(plan, service):
            self._rewrites.rewritten(service)

    def _observe(self, service: Object) -> desired.Observed:
        return desired.Observed(
            self._proxies.children(desired.owner(key_of(service))),
            self._proxies.proxy_class(class_name(service, self._settings.proxy_class)),
        )

    async def _decide(self, service: Object, observed: desired.Observed) -> Plan:
        if desired.is_leaving(service, self._settings):
            self._rewrites.forget(key_of(service))
            return desired.plan_deletion(service, observed)
        if plan := desired.refusal(service, observed, self._settings):
            return plan
        proxy = desired.proxy(service, self._settings, observed.proxy_class)
        findings = await self._proxies.findings(proxy, observed.children)
        auth_keys = await self._proxies.auth_keys(proxy, observed.children)
        observed = replace(observed, rivalry=await self._rivalry(service, proxy, observed))
        plan = desired.plan(service, observed, self._settings, auth_keys)
        return told(plan, findings, condition=CONDITION_PROXY_READY, reasons=desired.DEVICE_REASONS)

    async def _rivalry(self, service: Object, proxy: Proxy, observed: desired.Observed) -> Rivalry:
        """Return what is to be heeded of somebody who sets an egress *service* back; who that is takes a live read."""
        if exposure.asks(service, self._settings):
            self._rewrites.forget(key_of(service))
            return PEACE
        name = proxy_key(proxy, observed.children, self._settings).name
        rivalry = self._rewrites.look(service, egress.strays(service, name, self._settings))
        if rivalry.who or not rivalry.fields:
            return rivalry
        who = egress.last_writer(await self._client.get(SERVICE, key_of(service))) or "something"
        self._rewrites.blame(service, who)
        return replace(rivalry, who=who)

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
