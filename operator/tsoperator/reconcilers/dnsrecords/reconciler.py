"""Gathers the facts about the records for `plan`, which decides about all records at once."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME, MAX_SHARDS

from tsoperator.api.names import LABEL_SERVICE_NAME, NAMESERVER, PARENT_INGRESS, PARENT_NAMESERVER, PARENT_SERVICE
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    IDENTITY,
    INGRESS,
    PROXYGROUP,
    SECRET,
    SERVICE,
    SUFFIXES,
    TAILSCALE_SERVICE,
    Key,
    Object,
    is_deleting,
    key_of,
    labels,
    uid,
)
from tsoperator.dns.canary import canary_name, service_addresses
from tsoperator.dns.nameserver import elected
from tsoperator.dns.records.live import NamedProxy, Record, hosted_record, in_order, record_of
from tsoperator.dns.records.shards import Limits, document, shard_named
from tsoperator.dns.records.table import Table
from tsoperator.group.claims import by_label
from tsoperator.proxy.endpoints import BY_SERVICE
from tsoperator.reconcilers.dnsrecords import plan as plans
from tsoperator.reconcilers.hosting import HostingChanges, HostingView
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.gathering import Gathering
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Comparison, Watches
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, BY_OWNER, Owner, grouped_owner_of, owner_of
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes, forwarded_zones

_AT_ONCE: Final = 500
"""The number of proxies to look at before other tasks get their turn. This takes about 20 ms."""

_NAME_ALONE: Final = 1.0
"""The longest time, in seconds, before a new name without an address is written. Pods can't use such a name yet."""

_PARENTS: Final = {PARENT_SERVICE: SERVICE, PARENT_INGRESS: INGRESS}


def dnsrecords(
    cache: Cache,
    settings: Settings,
    hosting: HostingView,
    suffixes: Callable[[], Suffixes] = Suffixes,
    limits: Limits = plans.DEFAULT_LIMITS,
) -> Kind[plans.Observed]:
    """Return the `Kind` of records, which writes the ConfigMaps of records.

    It has a single key, which stands for all records. *suffixes* returns the known suffixes of MagicDNS names.
    """
    view, render = _View(cache, settings, hosting, suffixes), lru_cache(maxsize=2 * MAX_SHARDS)(document)

    def plan(_obj: Object, observed: plans.Observed) -> Plan:
        return plans.plan(observed, settings, limits, render)

    def refused(observed: plans.Observed, _obj: Object, refusal: Refusal) -> Plan:
        return plans.failed(observed.dnsconfig or {}, refusal)

    gathering = Gathering(0.02)
    return Kind(None, view.watches, view.look, plan, refused, view.written, name="DNSRecords", gathering=gathering)


class _View:
    """Gathers the facts about the proxies that have names, and about the ConfigMaps of records.

    A change concerns one or two of 100,000 proxies. The view notes these proxies, and the change queues the single key.
    When the key is reconciled, the view looks only at the noted proxies again, in the cache.
    """

    def __init__(
        self, cache: Cache, settings: Settings, hosting: HostingView, suffixes: Callable[[], Suffixes]
    ) -> None:
        self._cache = cache
        self._hosting = hosting
        self._settings = settings
        self._suffixes = suffixes
        self._key = Key(settings.namespace, CONFIGMAP_NAME)
        self._table = Table()
        self._changed: set[Key] = set()
        self._canaries: set[Key] = set()
        self._stale = True  # True if something has changed on which the ConfigMaps depend
        self._written = False  # True if the latest plan has been carried out
        self._due = inf  # the latest time to write names without addresses, by the loop's clock
        self._writer: asyncio.Task[object] | None = None  # the task that carries out the plans
        changes = HostingChanges(cache, SERVICE)
        self.watches: Watches = {
            SERVICE: self._of_service,
            ENDPOINTSLICE: self._of_slice,
            INGRESS: self._of_ingress,
            **dict.fromkeys((DNSCONFIG, SUFFIXES), self._of_anything_else),
            CONFIGMAP: self._of_configmap,
            DEPLOYMENT: self._of_deployment,
            TAILSCALE_SERVICE: lambda obj: self._noting(changes.of_service(obj)),
            IDENTITY: lambda obj: self._noting(changes.of_identity(obj)),
            PROXYGROUP: Comparison(lambda old, new: self._noting(changes.of_group(old, new))),
            SECRET: Comparison(lambda old, new: self._noting(changes.of_secret(old, new))),
        }

    async def look(self, _key: Key, _obj: Object) -> plans.Observed:
        """Gather the facts about the records, or say how long the ConfigMaps of records can stay as they are.

        They can if nothing has changed, or if the changes can wait.
        """
        await self._look_at_changed()
        wait = self._due - asyncio.get_running_loop().time()
        if self._written and not self._stale and wait > 0:
            return plans.Observed(wait=wait)  # a Pod that comes up causes several changes, so wait
        dnsconfig = elected(self._cache.all(DNSCONFIG))
        self._put_canaries(dnsconfig)
        self._stale, self._written, self._due, self._writer = False, False, inf, asyncio.current_task()
        nameserver = self._cache.get(DEPLOYMENT, Key(self._settings.namespace, NAMESERVER))
        suffixes = self._suffixes() if dnsconfig else NO_SUFFIXES
        return plans.Observed(dnsconfig, self._table.buckets(), self._configmaps(), nameserver, suffixes)

    def written(self, _obj: Object, _observed: plans.Observed, _plan: Plan) -> None:
        """Note that the plan has been carried out, so that the ConfigMaps need no look until something changes."""
        self._written = True

    async def _look_at_changed(self) -> None:
        """Look at the proxies that have changed. At the start these are all proxies, so other tasks run in between."""
        looked = 0
        while self._changed:
            key = next(iter(self._changed))
            self._look_at(key)
            self._changed.remove(key)
            looked += 1
            if looked % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _look_at(self, key: Key) -> None:
        """Bring the record for *key* in the table of records up to date; remove the record if there should be none.

        *key* names the Service in front of a proxy, or a user's Service that a ProxyGroup exposes.
        """
        proxy, is_new = self._proxy(key), key not in self._table
        record = record_of(proxy, self._settings) if proxy else self._hosted_record(key)
        if not self._table.put(key, record):
            return
        self._changed |= self._table.sharing(key)
        if is_new and record is not None and not record.has_addresses:
            self._due = min(self._due, asyncio.get_running_loop().time() + _NAME_ALONE)
        else:
            self._stale = True

    def _hosted_record(self, key: Key) -> Record | None:
        """Return the record of the user's Service named *key* that a ProxyGroup exposes; None if there is none."""
        service = self._cache.get(SERVICE, key)
        hosting = self._hosting.look(service) if service else None
        if service is None or hosting is None or not (hosting.dns_name and self._hosting.is_reached(hosting)):
            return None
        return hosted_record(service, hosting.dns_name.lower())

    def _put_canaries(self, dnsconfig: Object | None) -> None:
        """Give each zone that is forwarded for *dnsconfig* its canary, once the nameserver has an address.

        A canary has a key without a namespace, and the key of a proxy has one, so the two can't collide.
        """
        wanted: dict[Key, Record] = {}
        addresses = in_order(service_addresses(self._cache.get(SERVICE, Key(self._settings.namespace, NAMESERVER))))
        if dnsconfig and any(addresses):
            for zone in forwarded_zones(dnsconfig, self._settings.zones, self._suffixes()):
                wanted[Key("", zone)] = Record(canary_name(uid(dnsconfig), zone), *addresses)
        for key in self._canaries | wanted.keys():
            self._stale |= self._table.put(key, wanted.get(key))
        self._canaries = {*wanted}

    def _proxy(self, key: Key) -> NamedProxy | None:
        """Return the proxy behind the Service *key*; None if there is no such Service, or no proxy for a record.

        Only the proxies of Services and Ingresses can have records.
        """
        service = self._cache.get(SERVICE, key)
        owner = self._owner(service) if service else None
        if service is None or owner is None:
            return None
        kind, slices = _PARENTS[owner.type], self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, str(key))
        watched, parent = self._cache.knows(kind, owner.key.namespace), self._cache.get(kind, owner.key)
        return NamedProxy(service, parent, slices, watched, self._leads(parent, owner, key) if parent else None)

    def _leads(self, parent: Object, owner: Owner, key: Key) -> bool | None:
        """Tell whether *parent* points at the Service named *key*.

        Return True if it does, False if it points at another place of its own, and None if it points at no
        place.
        """
        suffix = f".{self._settings.namespace}.svc.{self._settings.cluster_domain}"
        name = parent["spec"].get("externalName", "")
        if name == f"{key.name}{suffix}":
            return True
        if not name.endswith(suffix):
            return None
        there = (key_of(each).name for each in self._services_of(owner) if not is_deleting(each))
        return False if name.removesuffix(suffix) in there else None

    def _owner(self, service: Object) -> Owner | None:
        """Return the owner of the proxy behind *service*; None if there is no proxy that can have a name."""
        if key_of(service).namespace != self._settings.namespace:
            return None
        owner = owner_of(service) or grouped_owner_of(service)
        return owner if owner and owner.type in _PARENTS else None

    def _configmaps(self) -> Mapping[int, Object]:
        """Return the ConfigMaps of records, by the number of the shard."""
        shards = ((_shard(configmap), configmap) for configmap in self._cache.all(CONFIGMAP))
        return {shard: configmap for shard, configmap in shards if shard is not None}

    def _of_service(self, service: Object) -> Iterable[Key]:
        key = key_of(service)
        if key == Key(self._settings.namespace, NAMESERVER):
            return self._of_anything_else(service)
        if self._owner(service):
            return self._noting([key])
        exposed = [key] if any(by_label(service)) else []
        parents = self._services_of(Owner(PARENT_SERVICE, key))
        return self._noting([*map(key_of, parents), *exposed])

    def _of_ingress(self, ingress: Object) -> Iterable[Key]:
        if ingress["spec"].get("ingressClassName") != self._settings.ingress_class:
            return ()
        return self._noting(map(key_of, self._services_of(Owner(PARENT_INGRESS, key_of(ingress)))))

    def _services_of(self, owner: Owner) -> list[Object]:
        """Return the Services in front of the proxies of *owner*."""
        owned = str(owner)
        found = (self._cache.indexed(SERVICE, index, owned) for index in (BY_OWNER, BY_GROUPED_OWNER))
        return [*chain.from_iterable(found)]

    def _of_slice(self, endpoint_slice: Object) -> Iterable[Key]:
        """Note the proxy of *endpoint_slice*, because its record can change.

        A place at a ProxyGroup is noted only if other places claim the same name. The record of such a place
        has the address of its Service, and its endpoints matter only if several places claim the name.
        """
        service = Key(self._settings.namespace, labels(endpoint_slice).get(LABEL_SERVICE_NAME, ""))
        counts = owner_of(endpoint_slice) or (grouped_owner_of(endpoint_slice) and self._table.sharing(service))
        return self._noting([service]) if counts else ()

    def _noting(self, proxies: Iterable[Key]) -> Iterable[Key]:
        """Note *proxies*, whose records have perhaps changed. Return the single key if any wasn't noted yet."""
        before = len(self._changed)
        self._changed.update(proxies)
        return (self._key,) if len(self._changed) > before else ()

    def _of_anything_else(self, _obj: Object) -> Iterable[Key]:
        """Note that the ConfigMaps of records perhaps have to change, and return the single key."""
        self._stale = True
        return (self._key,)

    def _of_configmap(self, configmap: Object) -> Iterable[Key]:
        ours = self._writer is not None and asyncio.current_task() is self._writer
        return self._of_anything_else(configmap) if _shard(configmap) is not None and not ours else ()

    def _of_deployment(self, deployment: Object) -> Iterable[Key]:
        return self._of_anything_else(deployment) if key_of(deployment).name == NAMESERVER else ()


def _shard(configmap: Object) -> int | None:
    """Return the number of the shard in *configmap*; None if the nameserver doesn't read this ConfigMap."""
    owner = owner_of(configmap)
    return shard_named(configmap["metadata"]["name"]) if owner and owner.type == PARENT_NAMESERVER else None
