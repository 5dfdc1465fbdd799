"""Counts of queries and responses. One thread answers and counts; other threads read the counts without a lock."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tsnameserver.message import (
    FAST_TYPES,
    FORMERR,
    NOERROR,
    NXDOMAIN,
    RCODES,
    REFUSED,
    TC,
    TYPES,
    question_of,
)

MISS = len(FAST_TYPES)
"""The number to add to a slot in `Counts.fast`, for a query whose name doesn't exist."""
REFUSAL = 2 * MISS
"""The number to add to a slot in `Counts.fast`, for a query whose name is in no zone."""
OTHER = 0
"""The number that stands for all types without a count of their own, and for queries whose question can't be read."""


def _zeros(keys: Iterable[int]) -> dict[int, int]:
    return dict.fromkeys(keys, 0)


@dataclass(slots=True)
class Counts:
    """The numbers of queries and responses since the start. Clients can't make them take more memory."""

    fast: "array[int]" = field(default_factory=lambda: array("Q", bytes(8 * 3 * MISS)))
    """The numbers of queries on the fast path or in a compiled loop, by slot, slot + MISS or slot + REFUSAL."""
    general_types: dict[int, int] = field(default_factory=lambda: _zeros((*TYPES, OTHER)))
    general_rcodes: dict[int, int] = field(default_factory=lambda: _zeros(RCODES))
    general: int = 0
    """The number of queries that the fast path has left to the general path."""
    malformed: int = 0
    """The number of packets that get no response because they are no queries, and of queries that get FORMERR."""
    truncated: int = 0

    def add_general(self, response: bytes | None, rcode: int) -> None:
        """Count a query that took the general path, and its *response* with *rcode*."""
        self.general += 1
        if response is None:
            self.malformed += 1
            self.general_types[OTHER] += 1
            return
        _, qtype = question_of(response)
        self.general_types[qtype if qtype in self.general_types else OTHER] += 1
        self.general_rcodes[rcode] += 1
        self.malformed += rcode == FORMERR
        self.truncated += bool(response[2] & TC)

    def requests(self) -> Mapping[int, int]:
        """Return the number of packets by the record type that they ask for."""
        types = self.general_types.copy()
        for slot, qtype in enumerate(FAST_TYPES):
            types[qtype] += self.fast[slot] + self.fast[slot + MISS] + self.fast[slot + REFUSAL]
        return types

    def responses(self) -> Mapping[int, int]:
        """Return the number of responses for each rcode."""
        rcodes = self.general_rcodes.copy()
        rcodes[NOERROR] += sum(self.fast[:MISS])
        rcodes[NXDOMAIN] += sum(self.fast[MISS:REFUSAL])
        rcodes[REFUSED] += sum(self.fast[REFUSAL:])
        return rcodes
