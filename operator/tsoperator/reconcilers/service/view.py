"""Lists the places of egress Services at ProxyGroups from the cache, and allocates ports of the proxies."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tsoperator.api.names import FINALIZER, PROXY_GROUP
from tsoperator.api.objects import (
    CONFIGMAP,
    ENDPOINTSLICE,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    Key,
    Object,
    by_age,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    uid,
)
from tsoperator.group.clusterip import Target, is_place
from tsoperator.group.egress import BY_ENTRY, by_serving_group, entry_name, indexed_entry, served_service
from tsoperator.group.grouptype import EGRESS, GroupType, type_of
from tsoperator.group.places import Place, Places
from tsoperator.group.ports import BY_PROXY_PORT, Wanted, allocate, allocated, indexed_port
from tsoperator.group.proxygroup import Group, group_owner
from tsoperator.proxy.endpoints import BY_SERVICE, ready_addresses
from tsoperator.proxy.entries import entries_of
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import egress_report_of
from tsoperator.proxy.statefulset import egress_target
from tsoperator.proxy.workload import proxy_device
from tsoperator.reconcilers.service.ask import Ask, ServiceMode, parse
from tsoperator.reconcilers.service.violations import group_violations
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_GROUPED_OWNER, BY_OWNER, Owner
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

_CATCHING_UP: Final = 60.0
"""Seconds after which the cache surely shows a change.

A place that the cache still doesn't show after this time has been deleted, so its ports are free.
"""


class Timers:
    """Remembers since when facts about objects have been true.

    A restart of the operator forgets these times, so each wait that depends on them begins anew.
    """

    def __init__(self, cache: Cache) -> None:
        self._since = Memory[Mapping[str, float]](cache)

    def ages(self, service: Object, facts: Collection[str], now: float) -> Mapping[str, float]:
        """Return the seconds for which each of *facts* about *service* has been true; forget its other facts."""
        known = self._since.get(service) or {}
        since = {fact: known.get(fact, now) for fact in facts}
        self._since.note(service, since or None)
        return {fact: now - start for fact, start in since.items()}


@dataclass(frozen=True, slots=True)
class _Claim:
    """The *ports* of *group* that *service* is about to get; no ports if the group has too few free ports."""

    service: Key
    group: str
    ports: frozenset[int]


class PlacesView:
    """Lists the places of a Service at ProxyGroups, from the cache."""

    def __init__(self, cache: Cache, settings: Settings, clock: Callable[[], float] = loop_time) -> None:
        """*clock* is monotonic."""
        self._cache = cache
        self._clock = clock
        self._first_seen = Memory[float](cache)  # when each Pod was first seen
        self._settings = settings
        self._claims = Memory[_Claim](cache)  # by Service: several Services are reconciled at once
        self._ahead: list[Object] = []  # live ClusterIP Services that the cache doesn't show, or not as they are now
        self._ahead_until = 0.0

    def made_for(self, owner: Owner) -> Places:
        """Return the ClusterIP Services and EndpointSlices of *owner*, with the ProxyGroups where they are."""
        owned = str(owner)
        found = (self._cache.indexed(kind, BY_GROUPED_OWNER, owned) for kind in (SERVICE, ENDPOINTSLICE))
        services, slices = ([each for each in made if is_place(each)] for made in found)
        names = {labels(each)[PROXY_GROUP] for each in services}
        return Places(
            services,
            slices,
            {name: self._group(name) for name in names},
            cluster_domain=self._settings.cluster_domain,
            move_grace=self._settings.move_grace,
        )

    def of(self, ask: Ask, suffixes: Suffixes = NO_SUFFIXES) -> Places:
        """Return the places of a Service at ProxyGroups, with the ports that it gets at the group that it names.

        *suffixes* are the known suffixes of MagicDNS names.
        """
        self._claims.note(ask.service, None)  # the Service gets its ports anew, or needs none any more
        made = self.made_for(ask.owner)
        if ask.mode is not ServiceMode.GROUP:
            is_leaving = ask.mode is ServiceMode.NOTHING and has_finalizer(ask.service, FINALIZER)
            return replace(made, with_entry=self._with_entry(ask) if is_leaving else ())
        groups = made.groups if ask.group in made.groups else {**made.groups, ask.group: self._group(ask.group)}
        found = replace(made, groups=groups, rival=self._rival(ask, ask.group))
        if group_violations(ask, found, suffixes):
            return found  # without ports, so that other Services can get them
        live = made.at(ask.group)
        contested = self._contested(ask, live)
        return replace(found, ports=self._ports(ask, live, contested), contested=contested)

    def own_place(self, children: Children, name: str) -> Place | None:
        """Return the place of the Service's own proxy, which is called *name*; None if the proxy has no children.

        The place serves if a Pod is ready, and if the proxy has reported the name of its device. The proxy
        reports the name once it forwards connections.
        """
        if not (children.services or children.statefulsets or children.secrets):
            return None
        device = proxy_device(children)
        slices = self._cache.indexed(ENDPOINTSLICE, BY_SERVICE, str(Key(self._settings.namespace, name)))
        serves = device is not None and bool(device.fqdn) and any(ready_addresses(slices))
        target = next((Target(*egress_target(each)) for each in children.statefulsets), None)
        return Place(name, serves, is_headless=True, target=target)

    def take_live(self, places: Iterable[Object]) -> None:
        """Reserve the ports of the live *places* for their Services until the cache shows the places."""
        self._ahead, self._ahead_until = [*places], self._clock() + _CATCHING_UP

    def starved(self, group: str) -> list[Key]:
        """Return the Services that wait for free ports of *group*, because it has too few."""
        return [each.service for each in self._claims.facts() if each.group == group and not each.ports]

    def _group(self, name: str) -> Group:
        owner = str(group_owner(name))
        secrets = self._cache.indexed(SECRET, BY_OWNER, owner)
        reports = {key_of(each).name: report for each in secrets if (report := egress_report_of(each))}
        group, pods = self._cache.get(PROXYGROUP, Key("", name)), self._cache.indexed(POD, BY_OWNER, owner)
        return Group(name, group, self._configmap(name), pods, reports, self._new(pods))

    def _new(self, pods: Iterable[Object]) -> Mapping[str, float]:
        """Return the newcomers among *pods*, by UID, each with the seconds for which it remains a newcomer.

        After a restart of the operator all Pods are newcomers. Then none of them waits for connections, because
        there are no older Pods.
        """
        now, wait, found = self._clock(), self._settings.newcomer_wait, {}
        for pod in pods:
            if (seen := self._first_seen.get(pod)) is None:
                self._first_seen.note(pod, seen := now)
            if now - seen < wait:
                found[uid(pod)] = wait - (now - seen)
        return found

    def _configmap(self, group: str, type_: GroupType = EGRESS) -> Object | None:
        return self._cache.get(CONFIGMAP, Key(self._settings.namespace, type_.config_name(group)))

    def _with_entry(self, ask: Ask) -> list[str]:
        """Return the names of the ProxyGroups whose reconciler has yet to remove the entry of a Service.

        The ConfigMap of a deleted ProxyGroup is deleted with the group, so nobody removes entries from it.
        """
        entry = entry_name(ask.key)
        there = [each for each in self._cache.all(PROXYGROUP) if not is_deleting(each)]
        groups = [(key_of(each).name, type_) for each in there if (type_ := type_of(each))]
        found = [name for name, type_ in groups if entry in entries_of(self._configmap(name, type_))]
        return [name for name in found if self._rival(ask, name) is None]

    def _rival(self, ask: Ask, group: str) -> Key | None:
        """Return another Service that has, or should get, the entry for which the Service of *ask* asks at *group*.

        Return None if there is no such Service. A Service with a place at the group keeps the entry. If no Service has
        a place there, the oldest Service gets the entry.
        """
        found = self._cache.indexed(SERVICE, BY_ENTRY, indexed_entry(group, entry_name(ask.key)))
        placed = {served_service(each) for each in found if self._is_place(each)}
        if others := placed - {ask.key}:
            return None if ask.key in placed else min(others)
        if ask.key in placed:
            return None
        users = (each for each in found if not self._is_place(each))
        asking = (each for each in users if parse(each, self._settings).mode is ServiceMode.GROUP)
        oldest = min(asking, key=by_age, default=ask.service)
        return key_of(oldest) if by_age(oldest) < by_age(ask.service) else None

    def _is_place(self, service: Object) -> bool:
        return key_of(service).namespace == self._settings.namespace and any(by_serving_group(service))

    def _contested(self, ask: Ask, live: Object | None) -> dict[Wanted, Key]:
        """Return the contested ports of a Service, each with the key of the older Service that has the same port.

        Two Services contest a port if both have the same port of the proxies. The operator never allocates a
        port of the proxies twice. But a restore from a backup, or another operator, can have done so. The older
        Service is the one with the older place.
        """
        found = {}
        for wanted, port in allocated(live).items():
            others = self._cache.indexed(SERVICE, BY_PROXY_PORT, indexed_port(ask.group, port))
            rivals = [each for each in others if not is_deleting(each) and served_service(each) != ask.key]
            oldest = min(rivals, key=by_age, default=None)
            if live and oldest and wanted in ask.ports and by_age(oldest) < by_age(live):
                found[wanted] = served_service(oldest)
        return found

    def _ports(self, ask: Ask, live: Object | None, contested: Collection[Wanted]) -> Mapping[Wanted, int] | None:
        """Return the ports of the proxies for a Service, and reserve new ports until the cache shows them.

        *contested* ports get other ports of the proxies than now. This function must not wait between its look
        at the used ports and the reservation.
        """
        kept = {wanted: port for wanted, port in allocated(live).items() if wanted not in contested}
        if ask.ports.keys() <= kept.keys():
            return allocate(ask.uid, ask.ports, kept, ())
        reserved = {port for each in self._claims.facts() if each.group == ask.group for port in each.ports}
        reserved |= self._ports_ahead(ask.group, ask.key)
        ports = allocate(ask.uid, ask.ports, kept, _Used(self._cache, ask.group, ask.key, reserved))
        self._claims.note(ask.service, _Claim(ask.key, ask.group, frozenset((ports or {}).values())))
        return ports

    def _ports_ahead(self, group: str, service: Key) -> set[int]:
        """Return the ports of *group* that other Services have at places which the cache doesn't show yet."""
        found = self._ahead if self._clock() < self._ahead_until else []
        self._ahead = [each for each in found if not self._shows(each)]
        others = (each for each in self._ahead if group in by_serving_group(each) and served_service(each) != service)
        return {port for each in others for port in allocated(each).values()}

    def _shows(self, live: Object) -> bool:
        """Tell whether the cache shows an object in the state *live*, or in a later state."""
        cached = self._cache.get(SERVICE, key_of(live))
        if cached is None:
            return False
        versions = {each["metadata"]["resourceVersion"] for each in (cached, live)}
        return len(versions) == 1 or self._cache.newest(SERVICE, live) is cached


@dataclass(frozen=True, slots=True)
class _Used:
    """The ports of *group* that *service* can't get: other Services have them, or they are *reserved* for others."""

    cache: Cache
    group: str
    service: Key
    reserved: Collection[int]

    def __contains__(self, port: object) -> bool:
        if port in self.reserved:
            return True
        found = self.cache.indexed(SERVICE, BY_PROXY_PORT, indexed_port(self.group, port))
        return any(served_service(each) != self.service for each in found)
