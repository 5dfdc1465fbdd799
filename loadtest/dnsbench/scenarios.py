"""What is compared: each scenario is some contestants, measured in turn, round after round (pure)."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto

from dnsbench.client import Load
from dnsbench.queries import Mix
from dnsbench.servers import Kind

SMALL, MIDDLE, LARGE = 1_000, 10_000, 100_000
RATE = 10_000
CONNECTIONS = 10


class Writes(Enum):
    """What is written once a second during a measurement."""

    NONE = auto()
    ASIDE = auto()
    """The changed records, but where no server reads them: what writing itself costs the machine."""
    SERVED = auto()


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server with its names, and the queries that it is measured by."""

    label: str
    kind: Kind
    mix: Mix
    writes: Writes = Writes.NONE


@dataclass(frozen=True, slots=True)
class Scenario:
    """Contestants that are measured in turn under the same load."""

    name: str
    title: str
    load: Load
    rounds: int
    contestants: tuple[Contestant, ...]
    by_dnsperf: bool = False
    """Whether dnsperf sends the queries, where it is installed."""

    def quick(self) -> "Scenario":
        """Return it in a single round that is short, though with some changes in it where there are any."""
        seconds = 4.0 if any(each.writes is Writes.SERVED for each in self.contestants) else 1.0
        return replace(self, rounds=1, load=replace(self.load, seconds=seconds))

    def only(self, kinds: Collection[Kind]) -> "Scenario":
        """Return it without the servers that aren't among *kinds*."""
        return replace(self, contestants=tuple(each for each in self.contestants if each.kind in kinds))


def _all(names: int) -> tuple[Contestant, ...]:
    return tuple(Contestant(kind, kind, Mix(names)) for kind in Kind)


def _sized(kind: Kind, *sizes: int) -> tuple[Contestant, ...]:
    return tuple(Contestant(f"{kind}, {size:,} names", kind, Mix(size)) for size in sizes)


def _floods() -> tuple[Contestant, ...]:
    """Make one contestant of hits alone and one of misses alone for each server."""
    return tuple(
        Contestant(f"{kind}, {what}", kind, Mix(SMALL, misses))
        for kind in Kind
        for what, misses in (("hits", 0.0), ("misses", 1.0))
    )


SCENARIOS = (
    Scenario("saturated", f"Saturated, {SMALL:,} names", Load(2.0), 5, _all(SMALL)),
    Scenario(
        "sizes",
        "Saturated, by the number of names",
        Load(2.0),
        4,
        _sized(Kind.OURS, SMALL, MIDDLE, LARGE) + tuple(_sized(kind, LARGE)[0] for kind in Kind if kind != Kind.OURS),
    ),
    Scenario("paced", f"{RATE:,} queries a second, {SMALL:,} names", Load(4.0, rate=RATE), 4, _all(SMALL)),
    Scenario("flood", "Saturated, hits alone and random names alone", Load(1.5), 4, _floods()),
    Scenario("tcp", f"TCP saturated, {CONNECTIONS} connections", Load(1.5, connections=CONNECTIONS), 3, _all(SMALL)),
    Scenario(
        "reload",
        f"{RATE:,} queries a second, {LARGE:,} names in shards, a name changing every second",
        Load(10.0, rate=RATE),
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
        tuple(each for each in _all(SMALL) if each.kind in {Kind.OURS, Kind.GO}),
        by_dnsperf=True,
    ),
)
