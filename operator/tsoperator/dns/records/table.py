"""The table of all records. It divides them into buckets by their names.

So a changed record rebuilds only one bucket.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from tsnameserver.records import MAX_SHARDS

from tsoperator.api.objects import Key
from tsoperator.dns.records.live import Record, shared_record


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Some names with their addresses, and the number of bytes that each name needs in a document.

    A bucket without changes stays the same Python object, so that a result that was computed from it can be reused.
    """

    ip4: Mapping[str, list[str]]
    ip6: Mapping[str, list[str]]
    weights: Mapping[str, int]
    weight: int


def bucket_number(name: str) -> int:
    """Return the number of the bucket for *name*. It is the same in every process and every release."""
    return crc32(name.encode()) % MAX_SHARDS


def bucket_of(records: Iterable[Record]) -> Bucket:
    """Return the bucket with *records*, of which no two have the same name.

    In the bucket, *ip4* has every name, even one without addresses.
    """
    ip4, ip6, weights = {}, {}, {}
    for record in records:
        name = record.name
        ip4[name] = list(record.ip4)
        weights[name] = _weight(name, record.ip4)
        if record.ip6:
            ip6[name] = list(record.ip6)
            weights[name] += _weight(name, record.ip6)
    return Bucket(ip4, ip6, weights, sum(weights.values()))


def _weight(name: str, addresses: Sequence[str]) -> int:
    """Return how many bytes *name* and its *addresses* need in a document, with quotes, brackets and commas."""
    return len(name.encode()) + 6 + sum(map(len, addresses)) + 3 * len(addresses)


class Table:
    """The records of all names, each under the key of its proxy.

    The key of a proxy is that of the Service in front of it. The record of a Service that a ProxyGroup exposes has the
    key of that Service, and the record of a canary has a key without a namespace.
    """

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._proxies: list[dict[str, set[Key]]] = [defaultdict(set) for _ in range(MAX_SHARDS)]
        self._buckets: dict[int, Bucket] = {}

    def __contains__(self, proxy: Key) -> bool:
        """Tell whether the proxy with this key has a record."""
        return proxy in self._records

    def sharing(self, proxy: Key) -> set[Key]:
        """Return the other proxies whose records have the same name as the record of *proxy*."""
        record = self._records.get(proxy)
        return self._proxies[bucket_number(record.name)][record.name] - {proxy} if record else set()

    def put(self, proxy: Key, record: Record | None) -> bool:
        """Store *record* as that of *proxy*, or remove the proxy's record if *record* is None.

        Return True if that changes the table.
        """
        old = self._records.pop(proxy, None)
        if record is not None:
            self._records[proxy] = record
        if record == old:
            return False
        if old is not None:
            proxies = self._touched(old.name)
            proxies[old.name].remove(proxy)
            if not proxies[old.name]:
                del proxies[old.name]
        if record is not None:
            self._touched(record.name)[record.name].add(proxy)
        return True

    def buckets(self) -> tuple[Bucket, ...]:
        """Return all buckets of records. The names in one bucket have the same hash."""
        for number in range(MAX_SHARDS):
            if number not in self._buckets:
                self._buckets[number] = bucket_of(
                    shared_record([self._records[proxy] for proxy in proxies])
                    for proxies in self._proxies[number].values()
                )
        return tuple(self._buckets[number] for number in range(MAX_SHARDS))

    def _touched(self, name: str) -> dict[str, set[Key]]:
        """Drop the bucket of *name*, because a record in it is about to change.

        Return the keys of the proxies whose records are in that bucket, grouped by the name of the record.
        """
        number = bucket_number(name)
        self._buckets.pop(number, None)
        return self._proxies[number]
