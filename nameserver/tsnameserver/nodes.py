"""The names of a zone, in many small dicts (buckets). The next zone shares all buckets without a changed name.

With a single dict of 100,000 names, each change would take 10 ms to copy and free the dict, and another 20 ms to make
the compiled loop's index of it.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

BUCKETS = 256
MASK = BUCKETS - 1

_T = TypeVar("_T")


class Nodes(Mapping[bytes, _T], Generic[_T]):
    """An immutable mapping from names to values, in buckets."""

    __slots__ = ("buckets",)

    def __init__(self, buckets: tuple[dict[bytes, _T], ...] | None = None) -> None:
        """Use *buckets*, by default empty ones. The hash of a name says which bucket has the name."""
        self.buckets = ({},) * BUCKETS if buckets is None else buckets

    def __getitem__(self, name: bytes) -> _T:
        return self.buckets[hash(name) & MASK][name]

    def __contains__(self, name: object) -> bool:
        return name in self.buckets[hash(name) & MASK]

    def __iter__(self) -> Iterator[bytes]:
        for bucket in self.buckets:
            yield from bucket

    def __len__(self) -> int:
        return sum(map(len, self.buckets))


class NodesDraft(Generic[_T]):
    """The names of the next zone while it is made. A bucket is copied at its first change."""

    def __init__(self, old: Nodes[_T]) -> None:
        self._buckets = list(old.buckets)
        self._own: set[int] = set()

    def get(self, name: bytes) -> _T | None:
        """Return the value of *name* in this draft; None if the draft doesn't have the name."""
        return self._buckets[hash(name) & MASK].get(name)

    def __contains__(self, name: bytes) -> bool:
        return name in self._buckets[hash(name) & MASK]

    def __getitem__(self, name: bytes) -> _T:
        return self._buckets[hash(name) & MASK][name]

    def __setitem__(self, name: bytes, node: _T) -> None:
        self._bucket(name)[name] = node

    def __delitem__(self, name: bytes) -> None:
        del self._bucket(name)[name]

    def nodes(self) -> Nodes[_T]:
        """Return the finished names. The draft must not be changed after this."""
        return Nodes(tuple(self._buckets))

    def _bucket(self, name: bytes) -> dict[bytes, _T]:
        number = hash(name) & MASK
        if number not in self._own:
            self._own.add(number)
            self._buckets[number] = self._buckets[number].copy()
        return self._buckets[number]
