"""The scenarios: each has some contestants, which are measured in turn in each round (pure)."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto

from dnsload.client import Load, steady

from dnsbench.attacks import Attack
from dnsbench.queries import Hostile, Mix
from dnsbench.servers import Kind
from dnsbench.victims import Victim

SMALL, MIDDLE, LARGE = 1_000, 10_000, 100_000
RATE = 10_000
CONNECTIONS = 10
CLIENT_RATE, HOSTILE_RATE = 1_000, 20_000
PEERS = (Kind.OURS, Kind.GO, Kind.NSD, Kind.KNOT)


class Writes(Enum):
    """Whether the benchmark writes changed records once a second while it measures a contestant, and where.

    With `NONE` it writes no changes. With `SERVED` it writes them into the folder that the contestant's server reads.
    """

    NONE = auto()
    ASIDE = auto()
    """The changed records, in a folder that no server reads. This shows the cost of only the writing."""
    SERVED = auto()


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server with its names, and the mix of queries that the client sends to it."""

    label: str
    kind: Kind
    mix: Mix
    writes: Writes = Writes.NONE
    victim: Victim | None = None
    """The sort of client whose latency is measured, in a scenario with an attack."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Contestants that are measured in turn under the same load."""

    name: str
    title: str
    load: Load
    rounds: int
    contestants: tuple[Contestant, ...]
    by_dnsperf: bool = False
    """True if dnsperf sends the queries, provided that it is installed."""
    attack: Attack | None = None
    """The attack by one client, during which another client, the victim, is measured."""

    def quick(self) -> "Scenario":
        """Return the scenario with a single short round.

        The round is a bit longer if there are changes or an attack.
        """
        seconds = 4.0 if self.attack or any(each.writes is Writes.SERVED for each in self.contestants) else 1.0
        return replace(self, rounds=1, load=replace(self.load, seconds=seconds))

    def only(self, kinds: Collection[Kind]) -> "Scenario":
        """Return the scenario with only the servers of *kinds*."""
        return replace(self, contestants=tuple(each for each in self.contestants if each.kind in kinds))


def _each(*kinds: Kind) -> tuple[Contestant, ...]:
    return tuple(Contestant(kind, kind, Mix(SMALL)) for kind in kinds)


ECHO = Contestant(Kind.ECHO, Kind.ECHO, Mix(1, misses=0.0))
"""The echo server. All queries ask for its only name, because it gives the same answer to every query."""


def _sized(kind: Kind, *sizes: int) -> tuple[Contestant, ...]:
    return tuple(Contestant(f"{kind}, {size:,} names", kind, Mix(size)) for size in sizes)


_SORTS = {
    "hits": Mix(SMALL, 0.0),
    "misses": Mix(SMALL, 1.0),
    "deep names": Mix(SMALL, 0.0, deep=1.0),
    "cookies": Mix(SMALL, 0.0, cookies=1.0),
    "names outside": Mix(SMALL, 0.0, outside=1.0),
}


def _sorts() -> tuple[Contestant, ...]:
    """Return the contestants that get queries of only one sort, such as hits.

    Each of our two servers has a contestant for each sort. Each other server has one for hits, and one for misses.
    """
    ours = tuple(
        Contestant(f"{kind}, {sort}", kind, mix) for kind in (Kind.OURS, Kind.PYTHON) for sort, mix in _SORTS.items()
    )
    peers = tuple(
        Contestant(f"{kind}, {sort}", kind, _SORTS[sort]) for kind in PEERS[1:] for sort in ("hits", "misses")
    )
    return ours + peers


def _hostile() -> tuple[Contestant, ...]:
    """Return a contestant for each sort of hostile packets at each of three servers: our two and the Go server."""
    share = HOSTILE_RATE / (HOSTILE_RATE + CLIENT_RATE)
    return tuple(
        Contestant(f"{kind}, {sort}", kind, Mix(SMALL, 0.0, hostile=(sort,), hostility=share))
        for kind in (Kind.OURS, Kind.PYTHON, Kind.GO)
        for sort in Hostile
    )


def _victims(kind: Kind, *victims: Victim) -> tuple[Contestant, ...]:
    return tuple(Contestant(f"{kind}, {victim}", kind, Mix(SMALL, 0.0), victim=victim) for victim in victims)


SCENARIOS = (
    Scenario("saturated", f"Saturated, {SMALL:,} names", Load(2.0), 5, (*_each(*PEERS, Kind.PYTHON), ECHO)),
    Scenario(
        "sizes",
        "Saturated, by the number of names",
        Load(2.0),
        4,
        _sized(Kind.OURS, SMALL, MIDDLE, LARGE) + tuple(_sized(kind, LARGE)[0] for kind in PEERS[1:]),
    ),
    Scenario(
        "paced",
        f"{RATE:,} queries a second, {SMALL:,} names",
        Load(4.0, rates=steady(RATE)),
        4,
        (*_each(*PEERS, Kind.PYTHON), ECHO),
    ),
    Scenario("flood", "Saturated, by the sort of queries", Load(1.5), 4, _sorts()),
    Scenario(
        "hostile",
        f"{CLIENT_RATE:,} queries a second among {HOSTILE_RATE:,} hostile packets a second",
        Load(3.0, rates=steady(CLIENT_RATE + HOSTILE_RATE)),
        2,
        _hostile(),
    ),
    Scenario(
        "tcp",
        f"TCP saturated, {CONNECTIONS} connections",
        Load(1.5, connections=CONNECTIONS, each=100),
        3,
        _each(*PEERS),
    ),
    Scenario(
        "tcp-new",
        f"TCP saturated, a connection a query, {CONNECTIONS} at a time",
        Load(1.5, connections=CONNECTIONS, outstanding=CONNECTIONS, each=1),
        3,
        _each(*PEERS),
    ),
    Scenario(
        "tcp-flood",
        "Another client, while 500 TCP connections of one client pipeline queries",
        Load(4.0),
        2,
        _victims(Kind.OURS, Victim.PROBE, Victim.TCP),
        attack=Attack.FLOOD,
    ),
    Scenario(
        "gone",
        "Another client, while 200 queries a second come from a neighbour that is gone",
        Load(6.0),
        2,
        _victims(Kind.OURS, Victim.UDP) + _victims(Kind.PYTHON, Victim.UDP),
        attack=Attack.GONE,
    ),
    Scenario(
        "reload",
        f"{RATE:,} queries a second, {LARGE:,} names in shards, a name changing every second",
        Load(10.0, rates=steady(RATE)),
        3,
        (
            Contestant("ours, no changes", Kind.OURS, Mix(LARGE), Writes.ASIDE),
            Contestant("ours, changes", Kind.OURS, Mix(LARGE), Writes.SERVED),
        ),
    ),
    Scenario(
        "dnsperf",
        f"Saturated by dnsperf, {SMALL:,} names",
        Load(2.0),
        3,
        _each(Kind.OURS, Kind.GO),
        by_dnsperf=True,
    ),
)
