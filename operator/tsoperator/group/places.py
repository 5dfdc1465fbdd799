"""The objects of an egress Service at ProxyGroups: a ClusterIP Service at each, with the EndpointSlices of that.

They are kept up to date, and removed when nobody needs them any more. A Service moves between ProxyGroups and a proxy
of its own: into the new place, then out of the old. While the old place serves and the new one doesn't yet, clients are
led to the old one. It goes a little later than they are led elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from tsoperator.api.names import DNS_FINALIZER, PROXY_GROUP
from tsoperator.api.objects import ENDPOINTSLICE, SERVICE, Key, Object, is_deleting, key_of, labels, uid
from tsoperator.group.egress import entry_name, entry_of, served_service
from tsoperator.group.ports import Wanted
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import (
    VERSIONS,
    Serving,
    endpoint_slices,
    families,
    leading_pods,
    led_pods,
    serves,
    serving_pods,
    slice_name,
)
from tsoperator.proxy.entries import entries_of
from tsoperator.runtime.ownership import first
from tsoperator.runtime.plan import Child, Deletion, Plan, Step, earliest


@dataclass(frozen=True, slots=True)
class Place:
    """A Service in front of proxies, where clients can be led; it *serves* if one of its proxies does.

    The name of one that *is_headless* resolves only while its proxy is ready.
    """

    name: str
    serves: bool
    is_headless: bool = False


def led_to(here: str, new: Place, old: Sequence[Place]) -> str:
    """Return the name of the place to which a Service should lead that wants the *new* one and leads *here* now.

    Return an empty name if it should lead nowhere yet: clients that look up a headless place before it serves get no
    address, and the cluster's DNS repeats that answer for up to 30 s. So clients are led there only once it serves, and
    then stay there while its Pod is replaced.
    """
    if new.serves:
        return new.name
    serving = [place.name for place in old if place.serves]
    choices = serving or [new.name, *(place.name for place in old)]
    if here in choices:
        return here
    return "" if new.is_headless and not serving else choices[0]


def is_over(here: str, new: Place, old: Collection[Place]) -> bool:
    """Tell whether the *old* places aren't needed any more: the *new* one serves, and clients aren't led to those."""
    return new.serves and here not in {place.name for place in old}


@dataclass(frozen=True, slots=True)
class Places:
    """The objects of an egress Service at ProxyGroups, and the facts about these on which its plan depends.

    *groups* are the ProxyGroups that it names, or has a place at. *holding* are those that still have an entry for it.
    *ports* are the proxies' ports that are allocated to its ports; None if there are not enough, or if the Service
    can't be served as it is. *contested* are those of its ports whose proxies' port an older Service has, too: that
    Service keeps it, so *ports* has another one. *rival* is a Service that already has the name of its entry. *ages*
    are for how many seconds facts have been so, such as that the old place of some name isn't needed any more. *own* is
    the place of its own proxy, if it has one. *cluster_domain* and *move_grace* are as in the operator's settings.
    """

    services: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    holding: Sequence[str] = ()
    ports: Mapping[Wanted, int] | None = None
    contested: Mapping[Wanted, Key] = field(default_factory=dict)
    rival: Key | None = None
    own: Place | None = None
    ages: Mapping[str, float] = field(default_factory=dict)
    cluster_domain: str = ""
    move_grace: float = inf

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of the Service at any ProxyGroup."""
        return not (self.services or self.slices or self.holding)

    def group(self, name: str) -> Group:
        """Return the ProxyGroup called *name*."""
        return self.groups.get(name) or Group(name)

    def at(self, group: str) -> Object | None:
        """Return the ClusterIP Service at *group*."""
        found = (each for each in self.services if labels(each)[PROXY_GROUP] == group)
        return first(each for each in found if not is_deleting(each))

    def new_and_old(self, current: str, *, is_own: bool = False) -> tuple[Place, list[Place]]:
        """Return the place called *current*, and all others; *is_own* tells whether it is that of its own proxy."""
        found = [Place(key_of(each).name, serves(each, self.slices)) for each in self.services]
        found += [self.own] if self.own else []
        new = next((each for each in found if each.name == current), Place(current, serves=False, is_headless=is_own))
        return new, [each for each in found if each.name != current]

    def is_abandoned(self, name: str) -> bool:
        """Tell whether the old place called *name* has been unused for so long that no client has its address."""
        return name in self.ages and self.ages[name] >= self.move_grace


NOWHERE = Places()
"""The Service has nothing at ProxyGroups."""


class Move(NamedTuple):
    """The *slices* of a Service that moves, and the steps that remove what it doesn't need any more.

    In *wait* seconds the next of its old places may go; None while the Service needs them, and when the last one goes.
    """

    slices: Sequence[Object]
    gone: Sequence[Step]
    wait: float | None


def leads_to(here: str, current: str, places: Places, *, is_own: bool = False) -> str:
    """Return the name of the place to which a Service should lead that leads *here* now.

    Return an empty name if it should lead to none yet. *current* is the name of the place where it should be served;
    *is_own* tells whether it is that of its own proxy.
    """
    new, old = places.new_and_old(current, is_own=is_own)
    return led_to(here, new, old)


def abandoned(here: str, current: str, places: Places) -> list[str]:
    """Return the names of the places that a Service doesn't need any more that leads *here*.

    It has any if the *current* one serves.
    """
    new, old = places.new_and_old(current)
    return [each.name for each in old] if is_over(here, new, old) else []


def move(here: str, current: str, places: Places, *updated: Object) -> Move:
    """Return the move of a Service that leads *here* into the place called *current*.

    *updated* is the ClusterIP Service there as it is wanted, if there is one.
    """
    others = [each for each in places.services if key_of(each).name != current]
    kept = [each for each in others if not places.is_abandoned(key_of(each).name)]
    slices = slices_of(places, [*updated, *kept])
    gone = removal(places, [current, *(key_of(each).name for each in kept)], slices)
    left = [places.move_grace - places.ages.get(name, 0.0) for name in abandoned(here, current, places)]
    return Move(slices, gone, earliest(*(each for each in left if each > 0)))


def upkeep(places: Places) -> Sequence[Step]:
    """Return the steps that keep the EndpointSlices of a Service up to date at all ProxyGroups where it has a place."""
    slices = slices_of(places, places.services)
    kept = [key_of(each).name for each in places.services]
    return (*map(Child, slices), *_surplus(places, kept, slices))


def removal(places: Places, kept: Collection[str] = (), slices: Iterable[Object] = ()) -> list[Step]:
    """Return the steps that remove what a Service has at ProxyGroups, except for places with these names.

    Of the EndpointSlices of such places, *slices* stay.
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
    """Return the steps that remove the EndpointSlices except for *slices*, and for those of the usual names at *kept*.

    An EndpointSlice that somebody else has made for such a place goes, too.
    """
    ours = {slice_name(name, version) for name in kept for version in VERSIONS} | {key_of(each).name for each in slices}
    return [
        Deletion(ENDPOINTSLICE, each)
        for each in places.slices
        if key_of(each).name not in ours and not is_deleting(each)
    ]


def slices_of(places: Places, services: Iterable[Object]) -> list[Object]:
    """Return the EndpointSlices of these ClusterIP Services; none is made before it has an endpoint."""
    there = {key_of(each).name for each in places.slices}
    return [
        each
        for service in services
        if not is_deleting(service)
        for each in endpoint_slices(service, service["spec"]["ports"], serving_of(service, places))
        if each["endpoints"] or key_of(each).name in there
    ]


def serving_of(service: Object, places: Places) -> dict[int, Serving]:
    """Return the Pods that serve the ports of a ClusterIP *service* and get connections, by IP version."""
    group, led = places.group(labels(service)[PROXY_GROUP]), led_pods(service, places.slices)
    return {
        version: {port: leading_pods(group, pods, led) for port, pods in serving.items()}
        for version, serving in _able(service, group, places).items()
    }


def await_newcomers(made: Plan, places: Places) -> Plan:
    """Return *made* with a time to look again, if a new Pod serves a Service that doesn't lead to it yet."""
    waits = []
    for service in places.services:
        group = places.group(labels(service)[PROXY_GROUP])
        if not group.new:
            continue
        led = serving_of(service, places)
        for version, serving in _able(service, group, places).items():
            for port, pods in serving.items():
                waits += [group.new[uid(pod)] for pod in pods if pod not in led[version][port]]
    return replace(made, requeue_after=earliest(made.requeue_after, *waits)) if waits else made


def _able(service: Object, group: Group, places: Places) -> dict[int, Serving]:
    """Return the Pods of *group* that serve the ports of a ClusterIP *service*, by IP version."""
    name = entry_name(served_service(service))
    # What the Go operator made doesn't say where it leads, but the proxies have been told.
    entry = entry_of(service, places.cluster_domain) or entries_of(group.configmap).get(name)
    return {version: serving_pods(group, name, entry, version) for version in families(service)}
