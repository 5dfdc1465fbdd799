"""Looks at what egress Services have at ProxyGroups, and allocates the proxies' ports."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, FINALIZER, PROXY_GROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    Key,
    Object,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    uid,
)
from tsoperator.group.egress import (
    BY_ENTRY,
    by_serving_group,
    config_name,
    entry_name,
    group_owner,
    indexed_entry,
    is_egress,
    served_service,
)
from tsoperator.proxy.endpoints import BY_SERVICE, ready_addresses
from tsoperator.proxy.entries import entries_of
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import egress_report_of
from tsoperator.proxy.workload import proxy_device
from tsoperator.reconcilers.service.clusterip import (
    BY_PROXY_PORT,
    Wanted,
    allocate,
    allocated,
    indexed_port,
    is_place,
    wanted_ports,
)
from tsoperator.reconcilers.service.grouprules import group_name, violations
from tsoperator.reconcilers.service.mode import Mode, mode_of
from tsoperator.reconcilers.service.moves import Place, Timers
from tsoperator.reconcilers.service.places import Places
from tsoperator.reconcilers.service.reservations import Reservations
from tsoperator.reconcilers.service.slices import Group
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, BY_OWNER, Owner
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import Suffixes

_CATCHING_UP: Final = 60.0
"""Seconds in which the cache surely learns of a change. A place that is deleted before the cache shows it is forgotten
then, and its ports are free."""


class PlacesView:
    """Shows from the cache what a Service has at ProxyGroups."""

    def __init__(
        self,
        cache: Cache,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        suffixes: Callable[[], Suffixes] = Suffixes,
    ) -> None:
        """*clock* is monotonic. *suffixes* tells which suffixes of MagicDNS names are known."""
        self._cache = cache
        self._clock = clock
        self._timers = Timers()
        self._settings = settings
        self._suffixes = suffixes
        self._reservations = Reservations()
        self._ahead: list[Object] = []  # live ClusterIP Services that the cache doesn't show, or not as they are now
        self._ahead_until = 0.0
        self._starved: dict[Key, str] = {}  # the Services that get no ports at their ProxyGroup

    def made_for(self, owner: Owner) -> Places:
        """Return the ClusterIP Services and EndpointSlices of *owner*, with the ProxyGroups where they are."""
        found = (self._cache.indexed(kind, BY_GROUPED_OWNER, str(owner)) for kind in (SERVICE, ENDPOINTSLICE))
        services, slices = ([each for each in made if is_place(each)] for made in found)
        names = {labels(each)[PROXY_GROUP] for each in services}
        return Places(services, slices, {name: self._group(name) for name in names})

    def of(self, service: Object, owner: Owner) -> Places:
        """Return what *service* has at ProxyGroups, and the ports that it gets at the one that is to serve it."""
        made, mode = self.made_for(owner), mode_of(service, self._settings)
        if annotations(service).get(ANNOTATION_TAILNET_FQDN):
            made = replace(made, suffixes=self._suffixes())
        if mode is not Mode.GROUP:
            self.forget(owner.key)
            held = mode is Mode.NOTHING and has_finalizer(service, FINALIZER)
            return replace(made, holding=self._holding(service) if held else ())
        name = group_name(service)
        groups = made.groups if name in made.groups else {**made.groups, name: self._group(name)}
        found = replace(made, groups=groups, rival=self._rival(service, name))
        self.forget(owner.key)
        if violations(service, found, self._settings):
            return found  # it must not keep ports from others
        contested = self._contested(service, name, made.at(name))
        return replace(found, ports=self._ports(service, name, made.at(name), contested), contested=contested)

    def own_place(self, children: Children, name: str) -> Place | None:
        """Return the place that the Service's own proxy is, called *name*; None if nothing is there of it.

        The proxy reports the name of its device once it forwards connections.
        """
        if not (children.services or children.statefulsets or children.secrets):
            return None
        device = proxy_device(children)
        slices = self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, name)
        serves = device is not None and bool(device.fqdn) and any(ready_addresses(slices))
        return Place(name, serves, is_headless=True)

    def take_live(self, places: Iterable[Object]) -> None:
        """Give nobody else the proxies' ports of the live *places*, while the cache may have yet to show them."""
        self._ahead, self._ahead_until = [*places], self._clock() + _CATCHING_UP

    def forget(self, service: Key) -> None:
        """Forget what is remembered for *service*: it is given ports at a ProxyGroup anew, or needs none any more."""
        self._reservations.free(service)
        self._starved.pop(service, None)

    def starved(self, group: str) -> list[Key]:
        """Return the Services for which *group* has too few free ports."""
        return [service for service, name in self._starved.items() if name == group]

    def _group(self, name: str) -> Group:
        owner = str(group_owner(name))
        secrets = self._cache.indexed(SECRET, BY_OWNER, owner)
        reports = {key_of(each).name: report for each in secrets if (report := egress_report_of(each))}
        group, pods = self._cache.get(PROXYGROUP, Key("", name)), self._cache.indexed(POD, BY_OWNER, owner)
        return Group(name, group, self._configmap(name), pods, reports, self._new(name, pods))

    def _new(self, group: str, pods: Iterable[Object]) -> Mapping[str, float]:
        """Return the *pods* of *group* that were first seen a short time ago, and how much of that time is left.

        After a restart of the operator all of them count as new, so that none of them waits.
        """
        ages = self._timers.ages(Key("", group), [uid(pod) for pod in pods], self._clock())
        wait = self._settings.newcomer_wait
        return {pod: wait - age for pod, age in ages.items() if age < wait}

    def _configmap(self, group: str) -> Object | None:
        return self._cache.get(CONFIGMAP, Key(self._settings.namespace, config_name(group)))

    def _holding(self, service: Object) -> list[str]:
        """Return the ProxyGroups whose ConfigMaps have an entry for *service*, and that will take it out.

        A ProxyGroup that goes takes its ConfigMap along.
        """
        entry = entry_name(key_of(service))
        names = [key_of(each).name for each in self._cache.all(PROXYGROUP) if is_egress(each) and not is_deleting(each)]
        return [
            name for name in names if entry in entries_of(self._configmap(name)) and self._rival(service, name) is None
        ]

    def _rival(self, service: Object, group: str) -> Key | None:
        """Return another Service that has, or is to have, the entry of *service* at *group*.

        Who has a ClusterIP Service there keeps the entry. Where nobody has one, the oldest Service gets it.
        """
        found = self._cache.indexed(SERVICE, BY_ENTRY, indexed_entry(group, entry_name(key_of(service))))
        mine = key_of(service)
        placed = {served_service(each) for each in found if self._is_place(each)}
        if others := placed - {mine}:
            return None if mine in placed else min(others)
        if mine in placed:
            return None
        asking = (each for each in found if not self._is_place(each) and mode_of(each, self._settings) is Mode.GROUP)
        oldest = min(asking, key=_age, default=service)
        return key_of(oldest) if _age(oldest) < _age(service) else None

    def _is_place(self, service: Object) -> bool:
        return key_of(service).namespace == self._settings.namespace and any(by_serving_group(service))

    def _contested(self, service: Object, group: str, live: Object | None) -> dict[Wanted, Key]:
        """Return the ports of *service* that have a port of the proxies in common with an older Service, and whose.

        The operator gives no port twice, but backups and other operators do. The ClusterIP Services' ages count.
        """
        found = {}
        for wanted, port in allocated(live).items():
            others = self._cache.indexed(SERVICE, BY_PROXY_PORT, indexed_port(group, port))
            rivals = [each for each in others if not is_deleting(each) and served_service(each) != key_of(service)]
            oldest = min(rivals, key=_age, default=None)
            if live and oldest and wanted in wanted_ports(service) and _age(oldest) < _age(live):
                found[wanted] = served_service(oldest)
        return found

    def _ports(
        self, service: Object, group: str, live: Object | None, contested: Collection[Wanted]
    ) -> Mapping[Wanted, int] | None:
        """Return the proxies' ports for *service*; new ones stay reserved until the cache shows them.

        The *contested* ports get other ones.
        """
        kept = {wanted: port for wanted, port in allocated(live).items() if wanted not in contested}
        if set(wanted_ports(service)) <= kept.keys():
            return allocate(service, kept, ())
        reserved = self._reservations.of_others(group, key_of(service)) | self._ports_ahead(group, key_of(service))
        used = _Used(self._cache, group, key_of(service), reserved)
        ports = allocate(service, kept, used)
        if ports is None:
            self._starved[key_of(service)] = group
        else:
            self._reservations.reserve(group, key_of(service), ports.values())
        return ports

    def _ports_ahead(self, group: str, service: Key) -> set[int]:
        """Return the ports of *group* that live places of others than *service* have, and the cache doesn't show."""
        found = self._ahead if self._clock() < self._ahead_until else []
        self._ahead = [each for each in found if not self._shows(each)]
        others = (each for each in self._ahead if group in by_serving_group(each) and served_service(each) != service)
        return {port for each in others for port in allocated(each).values()}

    def _shows(self, live: Object) -> bool:
        """Tell whether the cache shows an object at least as it was when it was read *live*."""
        held = self._cache.get(SERVICE, key_of(live))
        if held is None:
            return False
        versions = {each["metadata"]["resourceVersion"] for each in (held, live)}
        return len(versions) == 1 or self._cache.newest(SERVICE, live) is held


@dataclass(frozen=True, slots=True)
class _Used:
    """The proxies' ports of *group* that other Services than *service* have, or that are *reserved* for them."""

    cache: Cache
    group: str
    service: Key
    reserved: Collection[int]

    def __contains__(self, port: object) -> bool:
        if port in self.reserved:
            return True
        found = self.cache.indexed(SERVICE, BY_PROXY_PORT, indexed_port(self.group, port))
        return any(served_service(each) != self.service for each in found)


def _age(service: Object) -> tuple[str, Key]:
    return service["metadata"].get("creationTimestamp", ""), key_of(service)
