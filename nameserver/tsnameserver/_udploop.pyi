"""The types of the compiled UDP loop, whose source is in nameserver/udploop; see udp.py."""

from array import array
from collections.abc import Callable
from typing import final

from tsnameserver.zone import Node

@final
class Index:
    def __new__(
        cls,
        buckets: tuple[dict[bytes, Node], ...],
        apexes: tuple[tuple[bytes, bytes, bytes], ...],
        old: Index | None,
        /,
    ) -> Index: ...

@final
class Loop:
    def __new__(
        cls,
        socket: int,
        index: Index,
        answer: Callable[[bytes, bytes | None], bytes | None],
        unsent: Callable[[int], object],
        counts: array[int],
        sample_every: int,
        /,
    ) -> Loop: ...
    def serve(self, drain: bool, /) -> None: ...
    def swap(self, index: Index, /) -> None: ...
    def stop(self) -> None: ...

def answer(index: Index, query: bytes, /) -> tuple[bytes, int] | None: ...
