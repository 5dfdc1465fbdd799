"""Looks, decides, acts and reports for one Service at a time."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tsoperator.api.names import (
    LABEL_MANAGED,
    LABEL_SERVICE_NAME,
    LABEL_SERVICE_TYPE,
    MANAGED,
    PARENT_SERVICE,
    SERVICE_TYPE_EGRESS,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    DEVICE,
    DNSCONFIG,
    ENDPOINTSLICE,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    SUFFIXES,
    Key,
    Object,
    Resource,
    key_of,
    labels,
    uid,
)
from tsoperator.dns.nameserver import elected
from tsoperator.group.egress import by_group, by_serving_group, entry_name, served_service
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.classref import class_name
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.service import desired, egress, exposure, grouped
from tsoperator.reconcilers.service.changes import GroupChanges
from tsoperator.reconcilers.service.mode import Mode, mode_of
from tsoperator.reconcilers.service.moves import Timers
from tsoperator.reconcilers.service.names import NamesView
from tsoperator.reconcilers.service.places import FRESH, Places, abandoned, await_newcomers, removal, upkeep
from tsoperator.reconcilers.service.view import PlacesView
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, Owner, grouped_owner_of, is_child, owned_keys, owner_of
from tsoperator.runtime.plan import Plan, earliest
from tsoperator.runtime.result import Result
from tsoperator.runtime.reverts import NO_REVERTS, Reverts, last_writer
from tsoperator.runtime.rewrites import Rewrites
from tsoperator.tailnet.tailnet import OWN


class ServiceReconciler:
    """Makes egress Services, exposed Services, their proxies, and what they have at ProxyGroups right."""

    name = "service"

    def __init__(
        self, proxies: Proxies, applier: Applier, client: KubeClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proxies = proxies
        self._applier = applier
        self._client = client
        self._clock = clock
        self._rewrites = Rewrites()
        self._timers = Timers()
        self._cache = proxies.cache
        self._settings = proxies.settings
        self._view = PlacesView(self._cache, self._settings, clock, proxies.suffixes)
        self._changes = GroupChanges(self._cache)
        self._names = NamesView(self._cache, self._settings)
        self._had_dnsconfig = False
        self._reads_places = asyncio.Lock()
        self._has_read_places = False
        self.watches: Mapping[Resource, Mapper] = {
            SERVICE: self._keys_of_service,
            **dict.fromkeys((STATEFULSET, SERVICEMONITOR), self._parent_keys),
            SECRET: lambda secret: (*self._parent_keys(secret), *self._changes.of_secret(secret)),
            POD: lambda pod: (*self._parent_keys(pod), *self._changes.of_pod(pod)),
            ENDPOINTSLICE: self._keys_of_slice,
            PROXYGROUP: self._changes.of_group,
            CONFIGMAP: self._changes.of_configmap,
            PROXYCLASS: self._keys_of_class,
            DEVICE: self._keys_of_device,
            DNSCONFIG: self._keys_of_dnsconfig,
            SUFFIXES: self._keys_of_suffixes,
        }

    async def reconcile(self, key: Key) -> Result:
        """Make the cluster match the Service named *key*."""
        service, owner = self._cache.get(SERVICE, key), desired.owner(key)
        if service is None:
            return await self._remove_orphan(owner)
        observed = await self._observe(service)  # look
        wanted = desired.wanted(service, observed, self._settings)  # decide ...
        keys = await self._proxies.auth_keys(service, wanted, observed.children)  # (mint auth keys)
        plan = desired.plan(service, wanted, observed, self._settings, keys)  # ... decide
        plan = await_newcomers(plan, observed.places, self._settings)
        stored = await self._applier.act(service, plan, desired.failed)  # act
        if desired.rewrites(plan, service):
            goal = _goal(service, self._leads_to(service, observed))
            self._rewrites.rewritten(key, service["metadata"]["resourceVersion"], goal)
        return await self._proxies.report(owner, stored, plan, desired.failed)  # report

    async def _observe(self, service: Object) -> desired.Observed:
        owner, mode = desired.owner(key_of(service)), mode_of(service, self._settings)
        if mode is Mode.GROUP:
            await self._read_places()
        self._proxies.found(owner)
        children = self._proxies.children(owner)
        leads = egress.destination(service) if mode is Mode.PROXY else ""
        observed = desired.Observed(
            children,
            self._proxies.proxy_class(class_name(service, self._settings.proxy_class)),
            self._proxies.tailnet(OWN, owner, children, leads),
            places=self._places(service, owner, mode, children),
            has_dnsconfig=self._has_dnsconfig(),
            holder=self._names.holder(service),
        )
        reverts = await self._reverts(service, observed)
        return replace(observed, reverts=reverts, places=replace(observed.places, reverts=reverts))

    async def _read_places(self) -> None:
        """Read the places of all Services live, once, before this process gives a Service ports of proxies.

        The process has just begun to lead. The cache of a standby may lack ports that the leader before gave out a
        second ago.
        """
        async with self._reads_places:
            if self._has_read_places:
                return
            selector = f"{LABEL_MANAGED}={MANAGED},{LABEL_SERVICE_TYPE}={SERVICE_TYPE_EGRESS}"
            self._view.take_live((await self._client.list(SERVICE, self._settings.namespace, selector)).items)
            self._has_read_places = True

    def _places(self, service: Object, owner: Owner, mode: Mode, children: Children) -> Places:
        """Return what *service* has at ProxyGroups, and its own proxy, which is a place too."""
        found = self._view.of(service, owner)
        if mode is not Mode.NOTHING or found.services:
            name = desired.own_name(service, children, self._settings)
            found = replace(found, own=self._view.own_place(children, name))
        if mode is not Mode.GROUP and not found.services:
            self._timers.ages(owner.key, (), self._clock())
            return found
        if mode is Mode.GROUP and found.own is None:
            self._proxies.forget(owner)
        facts = {FRESH} if mode is Mode.GROUP and grouped.is_fresh(service) else set()
        if mode in (Mode.GROUP, Mode.PROXY):
            current = desired.current_place(service, children, found, self._settings)
            facts |= {*abandoned(service, current, found, self._settings)}
        return replace(found, ages=self._timers.ages(owner.key, facts, self._clock()))

    def _leads_to(self, service: Object, observed: desired.Observed) -> str:
        return desired.leads_to(service, observed.children, observed.places, self._settings)

    async def _reverts(self, service: Object, observed: desired.Observed) -> Reverts:
        """Return how another writer keeps reverting an egress *service*; a live read, which is rare, tells its name."""
        key, version = key_of(service), service["metadata"]["resourceVersion"]
        if desired.is_leaving(service, self._settings) or exposure.asks(service, self._settings):
            self._rewrites.forget(key)
            return NO_REVERTS
        name = self._leads_to(service, observed)
        strays = egress.strays(service, name, self._settings)
        reverts = self._rewrites.look(key, version, strays, _goal(service, name))
        if reverts.who or not reverts.fields:
            return reverts
        live = await self._client.get(SERVICE, key)
        who = last_writer(live, "spec", "externalName", "type") or "something"
        self._rewrites.remember_writer(key, who)
        return replace(reverts, who=who)

    async def _remove_orphan(self, owner: Owner) -> Result:
        """Remove what was made for a Service that vanished without waiting for our finalizer.

        What it has at ProxyGroups goes at once, because nothing is lost by that. But if its namespace isn't watched,
        the Service may be there. Then its clients are led to the Pods that take the place of others.
        """
        self._rewrites.forget(owner.key)
        self._view.forget(owner.key)
        self._timers.ages(owner.key, (), self._clock())
        places, is_gone = self._view.made_for(owner), self._cache.sees(SERVICE, owner.key.namespace)
        kept = Plan(steps=upkeep(places, self._settings))
        plan = Plan(steps=removal(places)) if is_gone else await_newcomers(kept, places, self._settings)
        await self._applier.apply({}, plan)
        orphan = await self._proxies.remove_orphan(SERVICE, owner)
        return Result(earliest(orphan.requeue_after, plan.requeue_after))

    def _keys_of_class(self, proxy_class: Object) -> Iterable[Key]:
        name = proxy_class["metadata"]["name"]
        return [
            key_of(service)
            for service in self._cache.all(SERVICE)
            if not desired.is_leaving(service, self._settings)
            and class_name(service, self._settings.proxy_class) == name
        ]

    def _keys_of_service(self, service: Object) -> Iterable[Key]:
        """Map a proxy's own Services to its parent, and any other Service to itself.

        It is also mapped to those that get or lose their name by it. A Service that has, or asks for, an entry at a
        ProxyGroup is mapped to those that ask for the same entry, and to those that have a port of the proxies in
        common with it. The ports of one that is gone may do for those that found none free.
        """
        is_made = is_child(service, self._settings.namespace)
        if is_made:
            shared = (*self._changes.sharing(service), *self._names.concerned_by_child(service))
            keys = {*self._parent_keys(service), *shared}
        else:
            keys = {key_of(service), *self._names.concerned(service)}
        groups = by_serving_group(service) if is_made else by_group(service)
        for group in groups:
            name = entry_name(served_service(service) if is_made else key_of(service))
            keys |= self._changes.having(group, [name])
            if is_made and self._cache.get(SERVICE, key_of(service)) is None:
                keys |= {*self._view.starved(group)}
        return keys

    def _keys_of_slice(self, endpoint_slice: Object) -> Iterable[Key]:
        """Map the EndpointSlices of a place at a ProxyGroup to the parent, and those of its own proxy while it waits.

        It waits for its own proxy while it doesn't lead there, and while it moves.
        """
        if grouped_owner_of(endpoint_slice):
            return self._parent_keys(endpoint_slice)
        owner = owner_of(endpoint_slice)
        parent = self._cache.get(SERVICE, owner.key) if owner and owner.type == PARENT_SERVICE else None
        if parent is None or not egress.asks(parent):
            return ()
        leads = egress.pointed_at(parent, self._settings) == labels(endpoint_slice).get(LABEL_SERVICE_NAME)
        moves = bool(self._cache.indexed(SERVICE, BY_GROUPED_OWNER, str(owner)))
        return self._parent_keys(endpoint_slice) if moves or not leads else ()

    def _parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_SERVICE, self._settings.namespace)

    def _has_dnsconfig(self) -> bool:
        return elected(self._cache.all(DNSCONFIG)) is not None

    def _keys_of_dnsconfig(self, _dnsconfig: Object) -> Iterable[Key]:
        """Map the first DNSConfig, and the end of the last one, to the Services that say something of their names."""
        had, self._had_dnsconfig = self._had_dnsconfig, self._has_dnsconfig()
        if had == self._had_dnsconfig:
            return ()
        return [
            key_of(service)
            for service in self._cache.all(SERVICE)
            if self._names.holder(service)
            or (exposure.asks(service, self._settings) and exposure.cluster_naming(service, self._settings).why)
        ]

    def _keys_of_suffixes(self, _suffixes: Object) -> Iterable[Key]:
        """Map the known suffixes to the Services that may be valid or not because of them."""
        return [key_of(service) for service in self._cache.all(SERVICE) if egress.needs_suffix(service)]

    def _keys_of_device(self, device: Object) -> Iterable[Key]:
        """Map a device of a tailnet to the Services whose proxies have it, and to those that lead to it."""
        yield from self._proxies.parents_of_device(device, PARENT_SERVICE)
        for alias in device["aliases"]:
            for service in self._cache.indexed(SERVICE, egress.BY_DESTINATION, alias):
                yield key_of(service)


def _goal(service: Object, name: str) -> str:
    """Return what a rewrite of *service* is for: to point this very Service at the proxy called *name*."""
    return f"{uid(service)} {name}"
