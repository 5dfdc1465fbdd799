"""The node ports that a ProxyClass reserves for static endpoints. Two classes can't have the same port."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tsoperator.api.objects import Object, by_age, is_deleting, key_of
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.proxy.classref import is_ready

LAST_PORT = 65535


class Range(NamedTuple):
    """The ports from *first* to *last*, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: "Range") -> bool:
        """Tell whether both ends of *other*, which need not be in order, are among these ports."""
        return all(self.first <= port <= self.last for port in other)

    def overlaps(self, other: "Range") -> bool:
        """Tell whether *other* and this range have a port in common."""
        return self.first <= other.last and other.first <= self.last


def ranges(proxy_class: ProxyClass | Invalid) -> list[Range]:
    """Return the node ports of the class as ranges; none if it is invalid or asks for no static endpoints."""
    if isinstance(proxy_class, Invalid) or proxy_class.spec.static_endpoints is None:
        return []
    given = proxy_class.spec.static_endpoints.node_port.ports
    return [Range(each.port, each.end_port or each.port) for each in given]


def text(found: Iterable[Range]) -> str:
    """Return words for the node ports *found*, as users write them in a ProxyClass."""
    return ", ".join(map(str, found))


def violation(
    obj: Object, proxy_class: ProxyClass, proxy_classes: Sequence[Object], cluster: Range | None = None
) -> str | None:
    """Return the violation in the node ports of the ProxyClass *obj*, parsed as *proxy_class*; None if there is none.

    The ports are compared with those of all other classes. *cluster* is the range of the cluster's node ports; None if
    it isn't known.
    """
    own = ranges(proxy_class)
    if cluster and (outside := [each for each in own if not cluster.covers(each)]):
        return f"{text(outside)} is not among the cluster's node ports: choose from {cluster}"
    for each in own:
        if not 0 < each.first <= each.last <= LAST_PORT:
            return f"{each} is no range of ports: give port and endPort from 1 to {LAST_PORT}, endPort not the smaller"
    for other in proxy_classes:
        taken = [each for each in ranges(ProxyClass.parse(other)) if any(map(each.overlaps, own))]
        if taken and _comes_before(other, obj):
            return f"ProxyClass {key_of(other).name!r} has {text(taken)}: give each class ports of its own"
    for before, after in pairwise(sorted(own)):
        if before.overlaps(after):
            return f"{before} and {after} overlap: give each port once"
    return None


def _comes_before(other: Object, obj: Object) -> bool:
    """Tell whether *other* keeps the ports that both ProxyClasses name, so that *obj* can't use them.

    A class that is ready keeps its ports. If both classes are ready, the older class keeps the ports, so that the
    plans of both classes agree.
    """
    if other["metadata"]["uid"] == obj["metadata"]["uid"] or is_deleting(other) or not is_ready(other):
        return False
    return not is_ready(obj) or by_age(other) < by_age(obj)
