"""Makes random queries, whose names are near those of a zone and whose sizes are near the limits, and mutated packets.

Some queries are malformed.
"""

import random
import struct
from collections.abc import Iterator

from tsnameserver.compiler import build_zone, empty_zone
from tsnameserver.names import wire_name
from tsnameserver.records import Records
from tsnameserver.zone import ZoneSettings

from tests.nameserver.samples import RECORDS, SETTINGS

_SIZES = {f"n{count}.tail1234.ts.net": count for count in (27, 28, 29, 30, 70, 71, 72, 73, 74, 75, 100)}
"""The number of addresses of each name. The answers have about 512 or 1,232 bytes, with or without OPT."""
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 54]) + ".ts.net"
"""A name of 255 bytes."""
ZONES = (
    build_zone(
        Records(
            ip4={
                **RECORDS.ip4,
                **{name: [f"192.0.2.{number}" for number in range(1, count + 1)] for name, count in _SIZES.items()},
                LONG: ["192.0.2.1"],
                LONG[2:]: [],
            },
            ip6={
                **RECORDS.ip6,
                **{name: [f"2001:db8::{number}" for number in range(1, count // 2)] for name, count in _SIZES.items()},
                "n100.tail1234.ts.net": ["2001:db8::1"],  # beside A records that are too long for UDP
            },
        ),
        ZoneSettings(origins=("ts.net", "deep.ts.net"), nsid="replica-7"),
    ),
    empty_zone(SETTINGS),
)
NAMES = tuple(
    wire_name(name) for name in (*RECORDS.ip4, *RECORDS.ip6, *_SIZES, LONG, LONG[2:], "ts.net", "deep.ts.net")
)
QTYPES = (*(1,) * 8, *(28,) * 6, 2, 5, 6, 12, 15, 16, 33, 35, 64, 65, 97, 251, 252, 255, 1000, 0x4101)
_TELLING = bytes((0, 1, 2, 3, 10, 12, 28, 41, 63, 64, 65, 90, 91, 97, 128, 192, 255))
"""The byte values that have a meaning in DNS messages: flags, lengths, types, and the first and last letters."""
_SEEDS = 4000
_OPT_SIZES = (0, 100, 511, 512, 513, 700, 1231, 1232, 1233, 4096, 65535)


def near(name: bytes, chance: random.Random) -> bytes:
    """Return a valid name that is *name* in any case, or differs from *name* by a label or a byte."""
    labels = []
    while name[0]:
        labels.append(name[1 : name[0] + 1])
        name = name[name[0] + 1 :]
    how = chance.randrange(10)
    if how == 0:
        labels.insert(chance.randint(0, len(labels)), chance.randbytes(chance.choice((1, 2, 8, 63))))
    elif how == 1:
        del labels[chance.randrange(len(labels))]
    elif how == 2:
        at = chance.randrange(len(labels))
        labels[at] = (labels[at] + chance.randbytes(1))[-63:]
    elif how == 3:
        labels = labels[1:] + labels[:1]
    lengths = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    return random_case(lengths, chance) if chance.random() < 0.7 else lengths


def random_case(name: bytes, chance: random.Random) -> bytes:
    """Return *name*, in wire form, with about half of its letters in the other case.

    Length bytes stay as they are, because they are smaller than any letter.
    """
    return bytes(
        byte ^ 0x20 if chr(byte).isascii() and chr(byte).isalpha() and chance.random() < 0.5 else byte for byte in name
    )


def random_query(chance: random.Random) -> bytes:
    """Return a random query. Most have one question in or near the zone, and some are malformed."""
    opt = _random_opt(chance) if chance.random() < 0.6 else b""
    odd = chance.random() < 0.1
    bits = bytes(
        (
            chance.randrange(8) if odd else chance.choice((0, 1)),
            chance.randrange(256) if odd else chance.choice((0, 0x10, 0x20, 0x30)),
        )
    )
    counts = struct.pack("!4H", 1, 0, 0, 1 if opt else 0)
    qclass = 1 if chance.random() < 0.95 else chance.choice((2, 3, 254, 255))
    qtype = chance.choice(QTYPES) if chance.random() < 0.95 else chance.randrange(65536)
    question = near(chance.choice(NAMES), chance) + struct.pack("!HH", qtype, qclass)
    query = chance.randbytes(2) + bits + counts + question + opt
    if chance.random() < 0.05:
        at = chance.randrange(len(query))
        return chance.choice(
            (query[:at], query[:at] + chance.randbytes(1) + query[at + 1 :], query + chance.randbytes(3))
        )
    return query


def _random_opt(chance: random.Random) -> bytes:
    version = 0 if chance.random() < 0.95 else chance.choice((1, 255))
    flags = chance.choice((0, 0, 0, 0x8000, 0x8000, 0x80, 0xFFFF))
    options = b"".join(
        struct.pack("!HH", chance.choice((3, 8, 10, 100)), 2 if chance.random() < 0.95 else 3) + b"ab"
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2)))
    )
    return struct.pack("!BHHBBHH", 0, 41, chance.choice(_OPT_SIZES), 0, version, flags, len(options)) + options


def mutated(chance: random.Random, count: int) -> Iterator[bytes]:
    """Yield *count* queries with some bytes changed, and sometimes cut or extended.

    The function is fast, so that tests can use millions.
    """
    seeds = [random_query(chance) for _ in range(_SEEDS)]
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
