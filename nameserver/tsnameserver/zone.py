"""A frozen snapshot of every name in every zone, ready to be copied into responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tsnameserver.compiled import Index, Loop
from tsnameserver.message import AAAA, ANY, NOERROR, NS, REFUSED, SOA, A, response_heads
from tsnameserver.names import are_labels
from tsnameserver.nodes import Nodes

RECORD_SIZES = {A: 16, AAAA: 28}
"""The size of a compiled record in bytes: a pointer to its owner, 10 bytes, and the address."""


class Section(NamedTuple):
    """The part of a response after the question: compiled records, with the rcode and the counts of the response."""

    heads: Mapping[bytes, bytes]
    """A map from the 10 flag-and-count bytes of an ordinary query to those of the response."""
    body: bytes
    rcode: int
    answers: int
    authority: int


def section(rcode: int, body: bytes = b"", *, answers: int = 0, authority: int = 0) -> Section:
    """Return a part of a response: the compiled *body*, and its numbers of *answers* and *authority* records."""
    return Section(response_heads(rcode, answers, authority), body, rcode, answers, authority)


class Node(NamedTuple):
    """The compiled A and AAAA records of one name. The SOA and NS records of an apex are in its `Apex`."""

    a: bytes
    aaaa: bytes
    origin: bytes
    """The wire name of the zone that the name is in."""

    def section(self, qtype: int) -> Section | None:
        """Return the A or AAAA records; None if there are none, or if *qtype* is neither A nor AAAA."""
        body = self.a if qtype == A else self.aaaa if qtype == AAAA else b""
        return section(NOERROR, body, answers=len(body) // RECORD_SIZES[qtype]) if body else None


@dataclass(frozen=True, slots=True)
class Apex:
    """The compiled records of a zone itself: SOA and NS, and the sections for NODATA and NXDOMAIN."""

    origin: bytes
    soa: Section
    ns: Section
    nodata: Section
    nxdomain: Section


_NOTHING = section(REFUSED)
OUTSIDE = Apex(b"", soa=_NOTHING, ns=_NOTHING, nodata=_NOTHING, nxdomain=_NOTHING)
"""A placeholder: the apex of names that are in no zone."""


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """The settings of zones: the zones that always exist, the TTL in seconds, and the name of this nameserver."""

    origins: tuple[str, ...] = ("ts.net",)
    ttl: int = 5
    ns_name: str = "nameserver.tailscale.svc.cluster.local."
    nsid: str = ""
    """The identifier of this replica (RFC 5001)."""


@dataclass(frozen=True, slots=True)
class Zone:
    """Names by lower-cased wire form, and the zones that they are in. Until *loaded* is True, there are no names."""

    nodes: Nodes[Node]
    apexes: Mapping[bytes, Apex]
    """The records of each zone itself, by the zone's wire name. A zone comes before the zone that contains it."""
    loaded: bool
    nsid: bytes = b""

    def apex_of(self, name: bytes) -> Apex | None:
        """Return the apex of the closest zone that *name* (lower-cased, on the wire) is in.

        Return None if *name* is in no zone. An invalid name is in no zone, even if it ends with the origin of one.
        """
        for origin, apex in self.apexes.items():
            if name.endswith(origin) and are_labels(name, len(name) - len(origin)):
                return apex
        return None

    def find(self, qname: bytes, qtype: int, apex: Apex) -> Section:
        """Return the records of *qname* for *qtype*, or if there are none, the section for NODATA or NXDOMAIN.

        *qname* is valid, lower-cased, in wire form and in the zone of *apex*. For ANY, return one RRset.
        """
        node = self.nodes.get(qname)
        if node is None:
            return apex.nxdomain
        at_apex = qname == apex.origin
        found: dict[int, Section | None] = {
            A: node.section(A),
            AAAA: node.section(AAAA),
            SOA: apex.soa if at_apex else None,
            NS: apex.ns if at_apex else None,
        }
        if qtype == ANY:
            return next((rrset for rrset in found.values() if rrset), apex.nodata)
        return found.get(qtype) or apex.nodata


class Serving:
    """The zone from which queries are answered. A new zone replaces it by one assignment."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._index: Index | None = None
        self._loops: list[Loop] = []

    @property
    def zone(self) -> Zone:
        """Return the current zone."""
        return self._zone

    @zone.setter
    def zone(self, zone: Zone) -> None:
        if self._index is not None:
            self._index = index_of(zone, self._index)
            for loop in self._loops:
                loop.swap(self._index)
        self._zone = zone

    def index(self) -> Index:
        """Return the index of the current zone. It is made once for each zone."""
        if self._index is None:
            self._index = index_of(self._zone, None)
        return self._index

    def feed(self, loop: Loop) -> None:
        """Give *loop* the index of each new zone. The loop must have been made with the current `index`."""
        self._loops.append(loop)


def index_of(zone: Zone, old: Index | None) -> Index:
    """Return the index of *zone*. It shares with the *old* index the buckets that their zones share.

    Before records are loaded, the index has no names, so that loops leave all queries to Python.
    """
    if not zone.loaded:
        return Index(Nodes[Node]().buckets, (), None)
    apexes = tuple((apex.origin, apex.nodata.body, apex.nxdomain.body) for apex in zone.apexes.values())
    return Index(zone.nodes.buckets, apexes, old)
