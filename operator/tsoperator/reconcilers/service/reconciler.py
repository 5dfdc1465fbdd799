"""Looks, decides, acts and reports for one Service at a time."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import (
    DEVICE,
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
    uid,
)
from tsoperator.desired.children import is_child, owned_keys
from tsoperator.desired.classref import class_name
from tsoperator.desired.proxy import Children, proxy_key
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.service import desired, egress, exposure
from tsoperator.reconcilers.service.rewrites import NO_REVERTS, Reverts, Rewrites
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.result import Result
from tsoperator.tailnet.tailnet import OWN


class ServiceReconciler:
    """Makes egress Services, exposed Services and their proxies right."""

    name = "service"

    def __init__(
        self, proxies: Proxies, applier: Applier, client: KubeClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proxies = proxies
        self._applier = applier
        self._client = client
        self._rewrites = Rewrites(clock)
        self._cache = proxies.cache
        self._settings = proxies.settings
        self.watches: Mapping[Resource, Mapper] = {
            SERVICE: self._keys_of_service,
            **dict.fromkeys((SECRET, STATEFULSET, POD, SERVICEMONITOR), self._parent_keys),
            PROXYCLASS: self._keys_of_class,
            DEVICE: self._keys_of_device,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Service named *key*."""
        service, owner = self._cache.get(SERVICE, key), desired.owner(key)
        if service is None:
            self._rewrites.forget(key)
            return await self._proxies.remove_orphan(SERVICE, owner)
        observed = await self._observe(service)  # look
        wanted = desired.wanted(service, observed, self._settings)  # decide ...
        keys = await self._proxies.auth_keys(wanted, observed.children)  # (mint auth keys)
        plan = desired.plan(service, wanted, observed, self._settings, keys)  # ... decide
        stored = await self._applier.act(service, plan, desired.failed)  # act
        if desired.rewrites(plan, service):
            self._rewrites.rewritten(service)
        return await self._proxies.report(owner, stored, plan, desired.failed)  # report

    async def _observe(self, service: Object) -> desired.Observed:
        owner = desired.owner(key_of(service))
        self._proxies.found(owner)
        children = self._proxies.children(owner)
        return desired.Observed(
            children,
            self._proxies.proxy_class(class_name(service, self._settings.proxy_class)),
            self._proxies.tailnet(OWN, owner, children, egress.destination(service)),
            await self._reverts(service, children),
        )

    async def _reverts(self, service: Object, children: Children) -> Reverts:
        """Return how another writer keeps reverting an egress *service*; a live read, which is rare, tells its name."""
        if desired.is_leaving(service, self._settings) or exposure.asks(service, self._settings):
            self._rewrites.forget(key_of(service))
            return NO_REVERTS
        name = proxy_key(desired.owner(key_of(service)), uid(service), children, self._settings).name
        reverts = self._rewrites.look(service, egress.strays(service, name, self._settings))
        if reverts.who or not reverts.fields:
            return reverts
        who = egress.last_writer(await self._client.get(SERVICE, key_of(service))) or "something"
        self._rewrites.remember_writer(service, who)
        return replace(reverts, who=who)

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(service)
            for service in self._cache.all(SERVICE)
            if not desired.is_leaving(service, self._settings)
            and class_name(service, self._settings.proxy_class) == name
        ]

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, and any other Service to itself."""
        return self._parent_keys(service) if is_child(service, self._settings.namespace) else (key_of(service),)

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_SERVICE, self._settings.namespace)

    def _keys_of_device(self, device: Object) -> Iterable[Key]:
        """Map a device of a tailnet to the Services whose proxies have it, and to those that lead to it."""
        yield from self._proxies.parents_of_device(device, PARENT_SERVICE)
        for alias in device["aliases"]:
            for service in self._cache.indexed(SERVICE, egress.BY_DESTINATION, alias):
                yield key_of(service)
