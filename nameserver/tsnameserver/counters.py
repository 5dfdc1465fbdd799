"""Queries and responses, counted by the one thread that answers them and read by others without a lock."""

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
"""What is added to a slot of the fast path where the name doesn't exist."""
REFUSAL = 2 * MISS
"""What is added to a slot of the fast path where the name is in no zone."""
OTHER = 0
"""Stands for every type that isn't counted by itself, and for queries without a question that can be read."""


def _zeros(keys: Iterable[int]) -> dict[int, int]:
    return dict.fromkeys(keys, 0)


@dataclass(slots=True)
class Counts:
    """Totals since the start; its mappings never grow, whatever clients send."""

    fast: "array[int]" = field(default_factory=lambda: array("Q", bytes(8 * 3 * MISS)))
    """What the fast path has answered, by slot, by slot + MISS, and by slot + REFUSAL; compiled loops count here."""
    general_types: dict[int, int] = field(default_factory=lambda: _zeros((*TYPES, OTHER)))
    general_rcodes: dict[int, int] = field(default_factory=lambda: _zeros(RCODES))
    general: int = 0
    """What the fast path has left to the general one."""
    malformed: int = 0
    """Packets that are no queries, and so have no response, and queries whose response is FORMERR."""
    truncated: int = 0

    def add_general(self, response: bytes | None, rcode: int) -> None:
        """Count a query that the fast path hasn't answered, and its *response* with *rcode*."""
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
        """Return all packets by type."""
        types = self.general_types.copy()
        for slot, qtype in enumerate(FAST_TYPES):
            types[qtype] += self.fast[slot] + self.fast[slot + MISS] + self.fast[slot + REFUSAL]
        return types

    def responses(self) -> Mapping[int, int]:
        """Return responses by rcode."""
        rcodes = self.general_rcodes.copy()
        rcodes[NOERROR] += sum(self.fast[:MISS])
        rcodes[NXDOMAIN] += sum(self.fast[MISS:REFUSAL])
        rcodes[REFUSED] += sum(self.fast[REFUSAL:])
        return rcodes
