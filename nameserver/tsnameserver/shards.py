"""Looks up names in a whole set of records documents, and compares the set with the previous one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tsnameserver.names import fold
from tsnameserver.records import Records

Addresses = tuple[Sequence[str], Sequence[str]]
"""The texts of a name's IPv4 and IPv6 addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """One document, and those of its names that are not written in folded form."""

    records: Records
    odd: Mapping[str, tuple[str, ...]]
    """The other spellings in the document, by the folded name. Nearly all names are written in folded form."""


def shard(records: Records) -> Shard:
    """Return *records* as a Shard, with the names that are not written in folded form."""
    odd: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys((*records.ip4, *records.ip6)):
        folded = fold(name)
        if folded != name:
            odd[folded] = (*odd.get(folded, ()), name)
    return Shard(records, odd)


class ShardSet:
    """The addresses of names in a whole set.

    If several shards have a name in the same spelling, its addresses in the last shard are used. If a name has
    several spellings, it has the addresses of all of them, in the byte order of the spellings.
    """

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(shards)
        parts = [each.records for each in self.shards]
        self._ip4 = [part.ip4 for part in parts if part.ip4]
        self._ip6 = [part.ip6 for part in parts if part.ip6]
        self._odd = [each.odd for each in self.shards if each.odd]
        self.zones = tuple(dict.fromkeys(zone for part in parts for zone in part.zones))
        self.serial = max((part.serial or 0 for part in parts), default=0)

    def addresses(self, name: str) -> Addresses | None:
        """Return the addresses of the folded *name*; None if the set doesn't have it."""
        if not self._odd:
            ip4, ip6 = _last(self._ip4, name), _last(self._ip6, name)
        else:
            spellings = self._spellings(name)
            ip4, ip6 = _joined(self._ip4, spellings), _joined(self._ip6, spellings)
        return None if ip4 is None and ip6 is None else (ip4 or (), ip6 or ())

    def _spellings(self, name: str) -> list[str]:
        spellings = {spelling for odd in self._odd for spelling in odd.get(name, ())}
        if fold(name) == name:  # otherwise this text is a spelling of another name
            spellings.add(name)
        return sorted(spellings)


def differences(old: ShardSet, new: ShardSet) -> Iterator[list[str]]:
    """Yield batches of folded names whose addresses possibly differ between *old* and *new*.

    The names of one batch are from one shard.
    """
    for before, after in zip_longest(old.shards, new.shards, fillvalue=_NOTHING):
        if before is not after:
            yield _changed(before.records.ip4, after.records.ip4)
            yield _changed(before.records.ip6, after.records.ip6)


_NOTHING = Shard(Records(), {})


def _changed(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[str]:
    changed = [name for name, texts in after.items() if before.get(name) != texts]
    return [fold(name) for name in (*changed, *(before.keys() - after.keys()))]


def _last(maps: Sequence[Mapping[str, list[str]]], spelling: str) -> list[str] | None:
    found = [each[spelling] for each in maps if spelling in each]
    return found[-1] if found else None


def _joined(maps: Sequence[Mapping[str, list[str]]], spellings: Iterable[str]) -> list[str] | None:
    found = [texts for spelling in spellings if (texts := _last(maps, spelling)) is not None]
    return [text for texts in found for text in texts] if found else None
