"""Packets that are queries but for some bytes, fast enough for millions of them."""

import random
from collections.abc import Iterator, Sequence

from tests.nameserver.random_queries import random_query

_TELLING = bytes((0, 1, 2, 3, 10, 12, 28, 41, 63, 64, 65, 90, 91, 97, 128, 192, 255))
"""Bytes that mean something somewhere: flags, lengths, types, limits of letters."""
_SEEDS = 4000


def mutated(chance: random.Random, count: int) -> Iterator[bytes]:
    """Return *count* packets: of each query some bytes are others, and now and then its end."""
    seeds: Sequence[bytes] = [random_query(chance) for _ in range(_SEEDS)]
    below, telling = chance.random, len(_TELLING)
    for _ in range(count):
        packet = bytearray(seeds[int(below() * _SEEDS)])
        for _ in range(int(below() * 4)):
            if packet:
                byte = _TELLING[int(below() * telling)] if below() < 0.5 else int(below() * 256)
                packet[int(below() * len(packet))] = byte
        if below() < 0.05:
            del packet[int(below() * (len(packet) + 1)) :]
        elif below() < 0.05:
            packet += bytes((int(below() * 256),) * int(below() * 20))
        yield bytes(packet)
