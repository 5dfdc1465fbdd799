"""The spread of records over ConfigMaps: their number, their contents, and the names that don't fit (pure).

The shard of a name depends only on the name and the number of shards, so a change of one name rewrites one ConfigMap.
The number is a power of two. It grows before a document would be larger than a limit. It shrinks only when no document
would need more than half of that limit. So a name that is added and removed again and again doesn't split and merge the
shards each time.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from tsnameserver.records import CONFIGMAP_NAME, MAX_SHARDS, Records, render

from tsoperator.dns.records.live import Record
from tsoperator.dns.records.table import Bucket, bucket_of

SERIALS: Final = 2**32
"""The number of possible serials: all serials are less than this number (RFC 1035 3.3.13)."""

Value = TypeVar("Value")

_COUNTS: Final = tuple(1 << power for power in range(MAX_SHARDS.bit_length()))
_NAME: Final = re.compile(rf"{CONFIGMAP_NAME}(?:-([1-9][0-9]{{0,3}}))?")
_TAIL: Final = re.compile(r'"serial":([0-9]{1,10})(?:,"shard":[0-9]{1,2},"shards":([0-9]{1,2}))?\}$')
_ZONES: Final = re.compile(r'"zones":\[("[^"]*"(?:,"[^"]*")*)\](?:,"[a-z]+":[0-9]+)*\}')
_TAIL_MOST: Final = 80  # characters


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a document's size in bytes.

    The records are spread over more shards if a document would be larger than *split*. Names that would make a document
    larger than *full* are left out, because the API server accepts a ConfigMap of up to 1 MiB.
    """

    split: int = 256 * 1024
    full: int = 1008 * 1024


class Trailer(NamedTuple):
    """The facts at the end of a records document: its serial, and the number of shards in its set."""

    serial: int
    shards: int


@dataclass(frozen=True, slots=True)
class Part:
    """The wanted contents of the shard with number *shard*, one of *count*: its *buckets*, and all *zones*."""

    shard: int
    count: int
    buckets: tuple[Bucket, ...]
    zones: tuple[str, ...]

    @property
    def weight(self) -> int:
        """The number of bytes that the names of this shard need in a document."""
        return sum(bucket.weight for bucket in self.buckets)

    @property
    def names(self) -> int:
        """The number of names in this shard."""
        return sum(len(bucket.ip4) for bucket in self.buckets)


def configmap_name(shard: int) -> str:
    """Return the name of the ConfigMap that holds *shard*."""
    return f"{CONFIGMAP_NAME}-{shard}" if shard else CONFIGMAP_NAME


def shard_named(configmap: str) -> int | None:
    """Return the number of the shard in the ConfigMap called *configmap*; None if that ConfigMap holds no records."""
    match = _NAME.fullmatch(configmap)
    return int(match[1] or 0) if match else None


def trailer_of(document: str) -> Trailer | None:
    """Return the trailer at the end of *document*, without parsing the rest; None if *document* isn't one of ours."""
    match = _TAIL.search(document[-_TAIL_MOST:])
    if match is None or int(match[2] or 1) not in _COUNTS:
        return None
    return Trailer(int(match[1]) % SERIALS, int(match[2] or 1))


def zones_of(document: str) -> list[str]:
    """Return the zones that the end of *document* names, without parsing the rest."""
    start = document.rfind('"zones":[')
    match = _ZONES.fullmatch(document, start) if start >= 0 else None
    return [zone.strip('"') for zone in match[1].split(",")] if match else []


def with_serial(document: str, serial: int) -> str:
    """Return *document* with *serial* in place of its serial, which is 0."""
    before, _, after = document.rpartition('"serial":0')
    return f'{before}"serial":{serial}{after}'


def frame_of(zones: Sequence[str]) -> int:
    """Return the most bytes that a document with these *zones* can need besides its names."""
    longest = Records(ip6={"": []}, zones=[*zones], serial=SERIALS, shard=MAX_SHARDS, shards=MAX_SHARDS)
    return len(render(longest).encode())


def count_for(buckets: Sequence[Bucket], frame: int, now: int, limits: Limits) -> int:
    """Return the number of shards that the records in *buckets* should have.

    *now* is the present number. *frame* is the number of bytes that each document needs besides its names.
    """
    weights = [bucket.weight for bucket in buckets]

    def largest(count: int) -> int:
        return frame + max(sum(weights[shard::count]) for shard in range(count))

    if largest(now) > limits.split:
        return next((count for count in _COUNTS if count > now and largest(count) <= limits.split), MAX_SHARDS)
    return next((count for count in _COUNTS if count < now and largest(count) <= limits.split // 2), now)


def parts_of(buckets: tuple[Bucket, ...], count: int, zones: tuple[str, ...]) -> list[Part]:
    """Return the contents of *count* shards, over which *buckets* are spread. Each shard has all *zones*."""
    return [Part(shard, count, buckets[shard::count], zones) for shard in range(count)]


def fitting_part(part: Part, room: int, served: Collection[str]) -> Part:
    """Return *part* with only as many names as fit in *room* bytes.

    It first takes names that are *served* already, and then the other names, each in alphabetical order.
    """
    weights = _joined(bucket.weights for bucket in part.buckets)
    ip4 = _joined(bucket.ip4 for bucket in part.buckets)
    ip6 = _joined(bucket.ip6 for bucket in part.buckets)
    chosen = []
    for name in sorted(weights, key=lambda name: (name not in served, name)):
        if weights[name] <= room:
            room -= weights[name]
            chosen.append(Record(name, tuple(ip4[name]), tuple(ip6.get(name, ()))))
    return replace(part, buckets=(bucket_of(chosen),))


def document(part: Part) -> str:
    """Return the document of *part* with serial 0.

    If there is only one shard, the document doesn't mention shards, like a document of the Go operator. To save time,
    the records are not validated again here.
    """
    alone = part.count == 1
    return render(
        Records.model_construct(
            ip4=_joined(bucket.ip4 for bucket in part.buckets),
            ip6=_joined(bucket.ip6 for bucket in part.buckets),
            zones=list(part.zones),
            serial=0,
            shard=None if alone else part.shard,
            shards=None if alone else part.count,
        )
    )


def _joined(mappings: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    return {name: value for mapping in mappings for name, value in mapping.items()}
