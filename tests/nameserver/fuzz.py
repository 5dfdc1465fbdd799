"""Holds the answers of the compiled loop against those of Python, on mutated packets.

`python -m tests.nameserver.fuzz --minutes 5` does so on every core, for that long or until it has had enough packets.
"""

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tsnameserver import _udploop
from tsnameserver.answer import answer
from tsnameserver.counters import Counts
from tsnameserver.zone import index_of

from tests.nameserver.random_queries import ZONES, mutated

_BATCH = 100_000
_EXAMPLES = 10
_ZONE, _INDEX = ZONES[0], index_of(ZONES[0], None)


class Compared(NamedTuple):
    """What a comparison came to."""

    packets: int
    answered: int
    """By the loop; it leaves the others to Python."""
    differing: Sequence[str]
    """Packets that the two answer or count differently, as hexadecimal digits."""

    def __str__(self) -> str:
        return (
            f"{self.packets:,} packets, {self.answered:,} answered by both loops, {len(self.differing):,} differences"
        )


def is_same(packet: bytes, index: _udploop.Index = _INDEX) -> bool | None:
    """Tell whether the loop answers and counts *packet* as Python does; None where it leaves it to Python."""
    said = _udploop.answer(index, packet)
    if said is None:
        return None
    counts, expected = Counts(), Counts()
    response, slot = said
    counts.fast[slot] += 1
    same = response == answer(packet, _ZONE, expected)
    return same and (counts.requests(), counts.responses()) == (expected.requests(), expected.responses())


def compared(packets: Iterable[bytes], index: _udploop.Index = _INDEX) -> Compared:
    """Compare on *packets*."""
    count, answered, differing = 0, 0, []
    for packet in packets:
        count += 1
        same = is_same(packet, index)
        answered += same is not None
        if same is False:
            differing.append(packet.hex())
    return Compared(count, answered, differing)


def total(parts: Sequence[Compared]) -> Compared:
    """Add up *parts*."""
    differing = [packet for part in parts for packet in part.differing]
    return Compared(sum(part.packets for part in parts), sum(part.answered for part in parts), differing)


def fuzz(seed: str, seconds: float, packets: int) -> Compared:
    """Compare on packets that *seed* makes, for so long or so many."""
    chance, deadline = random.Random(seed), time.monotonic() + seconds
    parts: list[Compared] = []
    while time.monotonic() < deadline and sum(part.packets for part in parts) < packets:
        parts.append(compared(mutated(chance, min(_BATCH, packets))))
    return total(parts)


def main(words: Sequence[str] | None = None) -> int:
    """Return 1 where there is a difference."""
    parser = argparse.ArgumentParser("fuzz", description="Compare the compiled loop with Python's on mutated packets.")
    parser.add_argument("--minutes", type=float, default=5, help="at most; default: %(default)s")
    parser.add_argument("--packets", type=int, default=10**8, help="at most; default: %(default)s")
    parser.add_argument("--seed", default=str(time.time_ns()), help="what the packets are made from; default: the time")
    told = parser.parse_args(words)
    workers, begun = os.cpu_count() or 1, time.monotonic()
    shares = [(f"{told.seed} {number}", 60 * told.minutes, told.packets // workers) for number in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        whole = total(pool.starmap(fuzz, shares))
    minutes = (time.monotonic() - begun) / 60
    sys.stdout.write(f"fuzz: {whole} in {minutes:.1f} minutes (--seed {told.seed})\n")
    sys.stdout.writelines(f"  {packet}\n" for packet in whole.differing[:_EXAMPLES])
    return 1 if whole.differing else 0


if __name__ == "__main__":
    sys.exit(main())
