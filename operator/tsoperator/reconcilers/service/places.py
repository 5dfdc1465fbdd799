"""What an egress Service has at ProxyGroups: a ClusterIP Service at each, with the EndpointSlices of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import Key, Object, is_deleting, key_of, labels
from tsoperator.desired.children import first
from tsoperator.reconcilers.service.clusterip import Wanted
from tsoperator.reconcilers.service.moves import Place
from tsoperator.reconcilers.service.rewrites import NO_REVERTS, Reverts
from tsoperator.reconcilers.service.slices import Group, serves
from tsoperator.settings import Settings

FRESH = "fresh"
"""The fact that a Service has yet to show whether it is ready."""


@dataclass(frozen=True, slots=True)
class Places:
    """What an egress Service has at ProxyGroups, and what its plan depends on there.

    *groups* are the ProxyGroups that it names, or has a place at. *holding* are those that still have an entry for it.
    *ports* are the proxies' ports that are allocated to its ports; None if there are not enough. *rival* is a Service
    that already has the name of its entry. *ages* are for how many seconds facts have been so: `FRESH`, or that the old
    place of some name isn't needed any more. *own* is the place of its own proxy, if it has one.
    """

    services: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    holding: Sequence[str] = ()
    ports: Mapping[Wanted, int] | None = None
    rival: Key | None = None
    own: Place | None = None
    ages: Mapping[str, float] = field(default_factory=dict)
    reverts: Reverts = NO_REVERTS

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

    def new_and_old(self, current: str) -> tuple[Place, list[Place]]:
        """Return the place called *current*, and all others."""
        found = [Place(key_of(each).name, serves(each, self.slices)) for each in self.services]
        found += [self.own] if self.own else []
        new = next((each for each in found if each.name == current), Place(current, serves=False))
        return new, [each for each in found if each.name != current]

    def is_abandoned(self, service: Object, settings: Settings) -> bool:
        """Tell whether the old ClusterIP *service* has been unused for so long that no client has its address."""
        return self.ages.get(key_of(service).name, 0.0) >= settings.move_grace


NOWHERE = Places()
"""The Service has nothing at ProxyGroups."""
