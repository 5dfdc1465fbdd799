"""Compiles records into a Zone. Each record is packed once, so that an answer only has to copy it.

Each zone is made from the previous one: it shares the unchanged names, and only changed names are compiled. The work is
done in short steps, because other threads wait for the interpreter during a step.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tsnameserver.errors import InvalidNameError
from tsnameserver.message import AAAA, A
from tsnameserver.names import fold, wire_name
from tsnameserver.nodes import Nodes, NodesDraft
from tsnameserver.packing import packed_addresses, packed_apex
from tsnameserver.records import Records
from tsnameserver.shards import Addresses, Shard, ShardSet, differences, shard
from tsnameserver.zone import RECORD_SIZES, Apex, Node, Zone, ZoneSettings

_SLICE = 64
"""The number of names that one step compiles, in less than a millisecond."""

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""A generator that does work in short steps, yields after each, and returns the result of the work."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A zone, and the facts about it that are needed to compile the next zone from it."""

    zone: Zone
    said: ShardSet
    children: dict[bytes, int]
    """The number of existing names directly below a name, for each name that has some."""
    problems: dict[str, tuple[str, ...]]
    """The messages about records that were left out of the zone, by name."""
    zone_problems: tuple[str, ...]
    """The messages about zones that were left out."""
    names: int
    """The number of names in the zone that come from the records."""
    ip4: int
    ip6: int
    changed: int = 0
    """The number of names that differ from the previous zone."""
    news: tuple[str, ...] = ()
    """The messages about problems that the previous zone didn't have."""


def empty_zone(settings: ZoneSettings) -> Zone:
    """Return the zone to serve until records arrive: queries for names in the zones of *settings* get SERVFAIL."""
    return nothing_compiled(settings).zone


def nothing_compiled(settings: ZoneSettings) -> Compiled:
    """Return the `Compiled` of the zone without records, with which the first call of `compile_steps` begins."""
    apexes, problems = _apexes(settings, (), 0)
    return Compiled(
        Zone(Nodes(), apexes, loaded=False, nsid=settings.nsid.encode()), ShardSet(()), {}, {}, problems, 0, 0, 0
    )


def build_zone(records: Records, settings: ZoneSettings) -> Zone:
    """Compile *records* without a pause, and return the zone."""
    return finished(compile_steps(nothing_compiled(settings), (records,), settings)).zone


def finished(steps: Steps[_T]) -> _T:
    """Do all *steps* without a pause, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def compile_steps(old: Compiled, documents: Sequence[Records], settings: ZoneSettings) -> Steps[Compiled]:
    """Compile *documents*, which are a whole set, into the next zone after *old*.

    *old* must have been compiled with the same *settings*. It stays unchanged.
    """
    said = yield from _shard_set(old.said, documents)
    apexes, zone_problems = _apexes(settings, said.zones, said.serial)
    draft = _Draft(old, said, apexes, settings.ttl)
    yield
    changed: dict[str, None] = {}
    for batch in differences(draft.before, said):
        changed.update(dict.fromkeys(batch))
        yield
    for count, name in enumerate(changed, 1):
        draft.compile(name)
        if count % _SLICE == 0:
            yield
    return draft.compiled(zone_problems)


def _shard_set(old: ShardSet, documents: Iterable[Records]) -> Steps[ShardSet]:
    known = {id(each.records): each for each in old.shards}
    shards: list[Shard] = []
    for records in documents:
        if id(records) not in known:
            yield
            known[id(records)] = shard(records)
        shards.append(known[id(records)])
    return ShardSet(shards)


class _Draft:
    """The next zone while it is being made."""

    def __init__(self, old: Compiled, said: ShardSet, apexes: Mapping[bytes, Apex], ttl: int) -> None:
        """Begin with a copy of *old*, or without names if *old* has other zones. *said* are the records to compile."""
        same = old.zone.loaded and old.zone.apexes.keys() == apexes.keys()
        self.before = old.said if same else ShardSet(())
        self._said = said
        self._ttl = ttl
        self._nodes = NodesDraft(old.zone.nodes if same else Nodes[Node]())
        self._zone = replace(old.zone, nodes=Nodes(), apexes=apexes, loaded=True)
        self._children = old.children.copy() if same else {}
        self._known = old.problems
        self._problems = old.problems.copy() if same else {}
        self._names, self._ip4, self._ip6 = (old.names, old.ip4, old.ip6) if same else (0, 0, 0)
        self._changed = 0
        self._news: list[str] = []
        if not same:
            for origin in apexes:
                self._nodes[origin] = _bare(origin)
            for origin in apexes:
                self._appeared(origin)

    def compiled(self, zone_problems: tuple[str, ...]) -> Compiled:
        """Return the finished zone, with the facts about it, among them *zone_problems*."""
        return Compiled(
            replace(self._zone, nodes=self._nodes.nodes()),
            self._said,
            self._children,
            self._problems,
            zone_problems,
            self._names,
            self._ip4,
            self._ip6,
            self._changed,
            tuple(self._news),
        )

    def compile(self, name: str) -> None:
        """Give the folded *name* the addresses that the new records have for it."""
        was, now = self.before.addresses(name), self._said.addresses(name)
        if was == now:
            return
        self._changed += 1
        self._problems.pop(name, None)
        problems: list[str] = []
        try:
            self._place(name, was, now, problems)
        except InvalidNameError as error:
            problems.append(f"name {name!r} is left out: {error}")
        if problems and now is not None:
            self._problems[name] = tuple(problems)
            known = self._known.get(name, ())
            self._news += [problem for problem in problems if problem not in known]

    def _place(self, name: str, was: Addresses | None, now: Addresses | None, problems: list[str]) -> None:
        if fold(name) != name:
            raise InvalidNameError("it begins or ends with more than one dot")
        wire = wire_name(name)
        apex = self._zone.apex_of(wire)
        if apex is None:
            problems.append(f"name {name!r} is left out: it is in no zone")
            return
        if was is not None:
            self._count(self._nodes.get(wire), -1)
        if now is not None:
            node = Node(*packed_addresses(name, now, self._ttl, problems), apex.origin)
            self._count(node, 1)
            if wire not in self._nodes:
                self._appeared(wire)
            self._nodes[wire] = node
        elif wire in self._zone.apexes or wire in self._children:
            self._nodes[wire] = _bare(apex.origin)
        elif wire in self._nodes:
            self._disappeared(wire)

    def _count(self, node: Node | None, sign: int) -> None:
        self._names += sign
        if node is not None:
            self._ip4 += sign * (len(node.a) // RECORD_SIZES[A])
            self._ip6 += sign * (len(node.aaaa) // RECORD_SIZES[AAAA])

    def _appeared(self, wire: bytes) -> None:
        """Make every name between *wire* and its apex exist (RFC 4592, 2.2.2)."""
        while (parent := _parent(wire)) not in self._nodes:
            apex = self._zone.apex_of(parent)
            if apex is None:
                return
            self._nodes[parent] = _bare(apex.origin)
            self._children[parent] = 1
            wire = parent
        self._children[parent] = self._children.get(parent, 0) + 1

    def _disappeared(self, wire: bytes) -> None:
        """Remove *wire*, and those names above it that existed only because of it."""
        while True:
            del self._nodes[wire]
            wire = _parent(wire)
            self._children[wire] -= 1
            if self._children[wire]:
                return
            del self._children[wire]
            if wire in self._zone.apexes or self._holds(wire):
                return

    def _holds(self, wire: bytes) -> bool:
        """Tell whether *wire*, an existing name, has addresses in this draft so far, or in the records to compile."""
        node = self._nodes[wire]
        return bool(node.a or node.aaaa) or self._said.addresses(_text(wire)) is not None


def _bare(origin: bytes) -> Node:
    return Node(b"", b"", origin)


def _parent(wire: bytes) -> bytes:
    return wire[wire[0] + 1 :]


def _text(wire: bytes) -> str:
    """Return the folded text of a name that `wire_name` made."""
    labels = []
    while wire[0]:
        labels.append(wire[1 : wire[0] + 1])
        wire = _parent(wire)
    return b".".join(labels).decode("ascii")


def _apexes(
    settings: ZoneSettings, more_origins: Iterable[str], serial: int
) -> tuple[Mapping[bytes, Apex], tuple[str, ...]]:
    """Return an `Apex` for each valid zone, by the zone's wire name, and a message about each invalid zone.

    A zone comes before the zone that contains it.
    """
    apexes = {}
    problems = []
    for origin in (*settings.origins, *more_origins):
        try:
            apex = packed_apex(origin, settings, serial)
        except InvalidNameError as error:
            problems.append(f"zone {origin!r} is left out: {error}")
        else:
            apexes[apex.origin] = apex
    deepest_first = dict(sorted(apexes.items(), key=lambda each: -len(each[0])))
    return deepest_first, tuple(problems)
