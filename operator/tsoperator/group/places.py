"""The places of a user's Service at ProxyGroups: ClusterIP Services, and their EndpointSlices.

A Service moves when it names another ProxyGroup, or none any more. While it moves, it has an old and a new place. One
of the two can be its own proxy. The Service points at the old place until the new place serves. The old place is
removed some time after that, because clients can still have its address (docs/development/groups.md).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from tsoperator.api.names import DNS_FINALIZER, PROXY_GROUP
from tsoperator.api.objects import ENDPOINTSLICE, SERVICE, Key, Object, is_deleting, key_of, labels, uid
from tsoperator.group.clusterip import Target
from tsoperator.group.egress import entry_name, entry_of, served_service
from tsoperator.group.ports import Wanted
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import (
    VERSIONS,
    Serving,
    connected_pods,
    endpoint_slices,
    families,
    serves,
    serving_pods,
    slice_name,
    without_newcomers,
)
from tsoperator.proxy.entries import Entry, entries_of
from tsoperator.runtime.ownership import first
from tsoperator.runtime.plan import Child, Deletion, Plan, Step, earliest


@dataclass(frozen=True, slots=True)
class Place:
    """A Service in front of proxies, called *name*, at which a user's Service can point.

    It *serves* if connections to it reach a proxy. If it *is_headless*, its name resolves only while the proxy behind
    it is ready. The proxies forward to *target*, whose MagicDNS name has no dot at the end; None if the operator
    doesn't know the target.
    """

    name: str
    serves: bool
    is_headless: bool = False
    target: Target | None = None


def best_of(here: str, new: Place, old: Sequence[Place]) -> str:
    """Return the name of the place at which a Service that moves from the *old* places to the *new* one should point.

    The Service points at the place called *here* now. Return an empty name if it should point at no place yet: the new
    place is headless and doesn't serve. Clients that look up its name would get no address, and the cluster's DNS would
    repeat that answer for up to 30 s. But if the Service points at such a place already, return that place, because its
    Pod is only being replaced.
    """
    if new.serves:
        return new.name
    serving = [place.name for place in old if place.serves]
    choices = serving or [new.name, *(place.name for place in old)]
    if here in choices:
        return here
    return "" if new.is_headless and not serving else choices[0]


def has_moved(here: str, new: Place, old: Collection[Place]) -> bool:
    """Tell whether a Service that points at the place called *here* has moved from the *old* places to the *new* one.

    It has moved if the new place serves and the Service doesn't point at an old place any more.
    """
    return new.serves and here not in {place.name for place in old}


@dataclass(frozen=True)
class Places:
    """The places of a Service at ProxyGroups, and the facts about them on which its plan depends.

    *services* are the ClusterIP Services that the operator has made for the user's Service, and *slices* are their
    EndpointSlices. *groups* are the ProxyGroups that the user's Service names, or at which it has a place. *with_entry*
    are the names of the groups that still have an entry for it. *own* is the place of its own proxy, if it has one.

    *ports* has the port of the proxies for each port of the Service; None if the group has too few ports, or if the
    Service is invalid. A port is *contested* if an older Service has the same port of the proxies; in that case *ports*
    has a new port of the proxies for it. *rival* is another Service whose entry has the same name.

    *ages* has some facts, each with the number of seconds for which it has been true. The name of an old place stands
    for the fact that the Service doesn't use that place. *cluster_domain* and *move_grace* are from the operator's
    settings.
    """

    services: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    with_entry: Sequence[str] = ()
    ports: Mapping[Wanted, int] | None = None
    contested: Mapping[Wanted, Key] = field(default_factory=dict)
    rival: Key | None = None
    own: Place | None = None
    ages: Mapping[str, float] = field(default_factory=dict)
    cluster_domain: str = ""
    move_grace: float = inf

    @property
    def is_empty(self) -> bool:
        """True if the Service has neither a place nor an entry at any ProxyGroup."""
        return not (self.services or self.slices or self.with_entry)

    def group(self, name: str) -> Group:
        """Return the facts about the ProxyGroup called *name*."""
        return self.groups.get(name) or Group(name)

    def at(self, group: str) -> Object | None:
        """Return the ClusterIP Service that is the place at the ProxyGroup called *group*; None if there is none."""
        found = (each for each in self.services if labels(each)[PROXY_GROUP] == group)
        return first(each for each in found if not is_deleting(each))

    def new_and_old(self, current: str, *, is_own: bool = False) -> tuple[Place, list[Place]]:
        """Return the place called *current*, and a list of the other places.

        *is_own* tells whether the current place is the Service's own proxy.
        """
        new = self.called(current) or Place(current, serves=False, is_headless=is_own)
        return new, [each for each in self._known if each.name != current]

    def called(self, name: str) -> Place | None:
        """Return the place called *name*; None if the Service has no such place."""
        return next((each for each in self._known if each.name == name), None)

    @cached_property
    def _known(self) -> list[Place]:
        """The places of the Service at ProxyGroups, and that of its own proxy."""
        found = [
            Place(key_of(each).name, serves(each, self.slices), target=_target(each, self)) for each in self.services
        ]
        return [*found, self.own] if self.own else found

    def is_abandoned(self, name: str) -> bool:
        """Tell whether the Service left the place called *name* so long ago that no client has its address any more."""
        return name in self.ages and self.ages[name] >= self.move_grace


NOWHERE = Places()
"""The value for a Service without any place."""


class Move(NamedTuple):
    """The EndpointSlices of a Service that moves, and the steps that remove its abandoned places.

    *slices* are the EndpointSlices that the Service should have, and *gone* are the steps. *wait* is the number of
    seconds until the next old place is abandoned; None if the Service hasn't moved yet, or has no other old place.
    """

    slices: Sequence[Object]
    gone: Sequence[Step]
    wait: float | None


def best_place(here: str, current: str, places: Places, *, is_own: bool = False) -> str:
    """Return the name of the place at which a Service should point now; empty if it should point at no place yet.

    The Service points at the place called *here*, and should move to the place called *current*. *is_own* tells whether
    *current* is its own proxy.
    """
    new, old = places.new_and_old(current, is_own=is_own)
    return best_of(here, new, old)


def unused(here: str, current: str, places: Places) -> list[str]:
    """Return the names of the old places that a Service doesn't use any more; empty while it still moves.

    The Service points at the place called *here*, and should move to the place called *current*.
    """
    new, old = places.new_and_old(current)
    return [each.name for each in old] if has_moved(here, new, old) else []


def move(here: str, current: str, places: Places, *updated: Object) -> Move:
    """Return the move of a Service from the place called *here*, at which it points, to the *current* place.

    *updated* is the ClusterIP Service of the current place as it should be. The caller leaves it out if the current
    place is the Service's own proxy.
    """
    others = [each for each in places.services if key_of(each).name != current]
    kept = [each for each in others if not places.is_abandoned(key_of(each).name)]
    slices = slices_of(places, [*updated, *kept])
    gone = removal(places, [current, *(key_of(each).name for each in kept)], slices)
    left = [places.move_grace - places.ages.get(name, 0.0) for name in unused(here, current, places)]
    return Move(slices, gone, earliest(*(each for each in left if each > 0)))


def upkeep(places: Places) -> Sequence[Step]:
    """Return the steps that update the EndpointSlices of all places of a Service, and change no other object."""
    slices = slices_of(places, places.services)
    kept = [key_of(each).name for each in places.services]
    return (*map(Child, slices), *_surplus(places, kept, slices))


def removal(places: Places, kept: Collection[str] = (), slices: Iterable[Object] = ()) -> list[Step]:
    """Return the steps that remove the places of a Service, except for those whose names are *kept*.

    *slices* are the EndpointSlices of the kept places, which stay, too.
    """
    return [
        *_surplus(places, kept, slices),
        *(
            Deletion(SERVICE, each, release=DNS_FINALIZER)
            for each in places.services
            if key_of(each).name not in kept or is_deleting(each)
        ),
    ]


def _surplus(places: Places, kept: Iterable[str], slices: Iterable[Object]) -> list[Step]:
    """Return the steps that remove the surplus EndpointSlices of a Service.

    An EndpointSlice isn't surplus if it is one of *slices*, or has the usual name of one at a *kept* place. A
    surplus one is at another place, or somebody else made it, or the operator made it while some ports had other
    endpoints than the rest. By now, these ports have the same endpoints as the rest, so they are in the EndpointSlice
    with the usual name.
    """
    ours = {slice_name(name, version) for name in kept for version in VERSIONS} | {key_of(each).name for each in slices}
    return [
        Deletion(ENDPOINTSLICE, each)
        for each in places.slices
        if key_of(each).name not in ours and not is_deleting(each)
    ]


def slices_of(places: Places, services: Iterable[Object]) -> list[Object]:
    """Return the EndpointSlices that the ClusterIP *services* should have.

    The result leaves out an EndpointSlice without endpoints, unless it exists already.
    """
    there = {key_of(each).name for each in places.slices}
    return [
        each
        for service in services
        if not is_deleting(service)
        for each in endpoint_slices(service, service["spec"]["ports"], endpoints_of(service, places))
        if each["endpoints"] or key_of(each).name in there
    ]


def endpoints_of(service: Object, places: Places) -> dict[int, Serving]:
    """Return the Pods to which the ports of a ClusterIP *service* should lead, by IP version (4 and 6)."""
    group, connected = places.group(labels(service)[PROXY_GROUP]), connected_pods(service, places.slices)
    return {
        version: {port: without_newcomers(group, pods, connected) for port, pods in serving.items()}
        for version, serving in _serving(service, group, places).items()
    }


def await_newcomers(made: Plan, places: Places) -> Plan:
    """Return the plan *made*, with a next reconcile no later than when the first newcomer can get connections.

    If no newcomer waits to serve the Service, return *made* unchanged.
    """
    waits = []
    for service in places.services:
        group = places.group(labels(service)[PROXY_GROUP])
        if not group.new:
            continue
        endpoints = endpoints_of(service, places)
        for version, serving in _serving(service, group, places).items():
            for port, pods in serving.items():
                waits += [group.new[uid(pod)] for pod in pods if pod not in endpoints[version][port]]
    return replace(made, requeue_after=earliest(made.requeue_after, *waits)) if waits else made


def _serving(service: Object, group: Group, places: Places) -> dict[int, Serving]:
    """Return the Pods of *group* that serve the ports of a ClusterIP *service*, by IP version.

    These Pods include newcomers.
    """
    name, entry = entry_name(served_service(service)), _entry(service, group, places)
    return {version: serving_pods(group, name, entry, version) for version in families(service)}


def _entry(service: Object, group: Group, places: Places) -> Entry | None:
    """Return the entry of a ClusterIP *service* at *group*.

    A ClusterIP Service that the Go operator made doesn't name its target, so the entry for it comes from the ConfigMap.
    """
    name = entry_name(served_service(service))
    return entry_of(service, places.cluster_domain) or entries_of(group.configmap).get(name)


def _target(service: Object, places: Places) -> Target | None:
    """Return the device to which a ClusterIP *service* leads; None if the operator doesn't know it."""
    entry = _entry(service, places.group(labels(service)[PROXY_GROUP]), places)
    return Target(entry.fqdn.removesuffix("."), entry.ip) if entry else None
