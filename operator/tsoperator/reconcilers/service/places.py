"""The objects of an egress Service at ProxyGroups: a ClusterIP Service at each, with the EndpointSlices of that.

Here is also what becomes of these places: they are kept up to date, and removed when nobody needs them any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tsoperator.api.names import DNS_FINALIZER, PROXY_GROUP
from tsoperator.api.objects import ENDPOINTSLICE, SERVICE, Key, Object, is_deleting, key_of, labels, uid
from tsoperator.group.egress import entry_name, entry_of, served_service
from tsoperator.proxy.entries import entries_of
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.clusterip import Wanted
from tsoperator.reconcilers.service.moves import Place, is_over
from tsoperator.reconcilers.service.slices import (
    VERSIONS,
    Group,
    Serving,
    endpoint_slices,
    families,
    leading_pods,
    led_pods,
    serves,
    serving_pods,
    slice_name,
)
from tsoperator.runtime.ownership import first
from tsoperator.runtime.plan import Child, Deletion, Plan, Step, earliest
from tsoperator.runtime.reverts import NO_REVERTS, Reverts
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

FRESH = "fresh"
"""The fact that a Service has yet to show whether it is ready."""


@dataclass(frozen=True, slots=True)
class Places:
    """The objects of an egress Service at ProxyGroups, and the facts about these on which its plan depends.

    *groups* are the ProxyGroups that it names, or has a place at. *holding* are those that still have an entry for it.
    *ports* are the proxies' ports that are allocated to its ports; None if there are not enough, or if the Service
    can't be served as it is. *contested* are those of its ports whose proxies' port an older Service has, too: that
    Service keeps it, so *ports* has another one. *rival* is a Service that already has the name of its entry. *ages*
    are for how many seconds facts have been so: `FRESH`, or that the old place of some name isn't needed any more.
    *own* is the place of its own proxy, if it has one. *suffixes* are the known ones of MagicDNS names.
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
    reverts: Reverts = NO_REVERTS
    suffixes: Suffixes = NO_SUFFIXES

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

    def is_abandoned(self, name: str, settings: Settings) -> bool:
        """Tell whether the old place called *name* has been unused for so long that no client has its address."""
        return name in self.ages and self.ages[name] >= settings.move_grace


NOWHERE = Places()
"""The Service has nothing at ProxyGroups."""


def abandoned(service: Object, current: str, places: Places, settings: Settings) -> list[str]:
    """Return the names of the places of *service* that it doesn't need any more, because the *current* one serves."""
    new, old = places.new_and_old(current)
    return [each.name for each in old] if is_over(egress.pointed_at(service, settings), new, old) else []


def moved_out(service: Object, current: str, made: Plan, places: Places, settings: Settings) -> Plan:
    """Return *made*, the plan for the proxy called *current*, with what becomes of the places at ProxyGroups."""
    kept = [each for each in places.services if not places.is_abandoned(key_of(each).name, settings)]
    slices = slices_of(places, kept, settings)
    gone = removal(places, [key_of(each).name for each in kept], slices)
    new, old = places.new_and_old(current)
    left = grace_left(egress.pointed_at(service, settings), new, old, places, settings)
    return replace(
        made,
        steps=[*map(Child, slices), *gone, *made.steps],
        requeue_after=earliest(made.requeue_after, left),
    )


def upkeep(places: Places, settings: Settings) -> Sequence[Step]:
    """Return the steps that keep the EndpointSlices of a Service up to date at all ProxyGroups where it has a place."""
    slices = slices_of(places, places.services, settings)
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


def slices_of(places: Places, services: Iterable[Object], settings: Settings) -> list[Object]:
    """Return the EndpointSlices of these ClusterIP Services."""
    return [
        each
        for service in services
        if not is_deleting(service)
        for each in endpoint_slices(service, service["spec"]["ports"], serving_of(service, places, settings))
    ]


def serving_of(service: Object, places: Places, settings: Settings) -> dict[int, Serving]:
    """Return the Pods that serve the ports of a ClusterIP *service* and get connections, by IP version."""
    group, led = places.group(labels(service)[PROXY_GROUP]), led_pods(service, places.slices)
    able = _able(service, group, settings)
    return {
        version: {port: leading_pods(group, pods, led) for port, pods in serving.items()}
        for version, serving in able.items()
    }


def await_newcomers(made: Plan, places: Places, settings: Settings) -> Plan:
    """Return *made* with a time to look again, if a new Pod serves a Service that doesn't lead to it yet."""
    waits = []
    for service in places.services:
        group = places.group(labels(service)[PROXY_GROUP])
        if not group.new:
            continue
        led = serving_of(service, places, settings)
        for version, serving in _able(service, group, settings).items():
            for port, pods in serving.items():
                waits += [group.new[uid(pod)] for pod in pods if pod not in led[version][port]]
    return replace(made, requeue_after=earliest(made.requeue_after, *waits)) if waits else made


def _able(service: Object, group: Group, settings: Settings) -> dict[int, Serving]:
    """Return the Pods of *group* that serve the ports of a ClusterIP *service*, by IP version."""
    name = entry_name(served_service(service))
    # What the Go operator made doesn't say where it leads, but the proxies have been told.
    entry = entry_of(service, settings.cluster_domain) or entries_of(group.configmap).get(name)
    return {version: serving_pods(group, name, entry, version) for version in families(service)}


def grace_left(here: str, new: Place, old: Sequence[Place], places: Places, settings: Settings) -> float | None:
    """Return in how many seconds the next of the *old* places may go.

    Return None while the Service needs them, and when the last one is going.
    """
    if not is_over(here, new, old):
        return None
    return earliest(*(left for each in old if (left := settings.move_grace - places.ages.get(each.name, 0.0)) > 0))
