"""Names, and the queries for them with the answers they are owed, as the client's file holds them (pure)."""

import random
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

ZONE = "ts.net"
DOMAIN = f"tail1234.{ZONE}"
CHANGING = f"changing.{DOMAIN}"
"""A name that no client asks for: reloads are seen by it."""
NOERROR, NXDOMAIN = 0, 3
HIT, MISS, JUNK = range(3)
FEWEST = 10_000
"""Queries in a file: with fewer names they come round again, misses never soon."""
_FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))
_JUNK_ID = b"\xff\xff"


class Query(NamedTuple):
    """A packet, and what is to come back."""

    packet: bytes
    kind: int
    rcode: int = NOERROR
    rdata: bytes = b""

    def encode(self) -> bytes:
        """Return the record of the client's file."""
        head = struct.pack("!HBBH", len(self.packet), self.kind, self.rcode, len(self.rdata))
        return head + self.packet + self.rdata


class Mix(NamedTuple):
    """Of how many names, and in what shares, queries are made; what is left is hits."""

    names: int
    misses: float = 0.1
    junk: float = 0.0


def addresses(count: int) -> dict[str, str]:
    """Return *count* names and the address of each."""
    return {f"name-{number:06d}.{DOMAIN}": str(IPv4Address(_FIRST_ADDRESS + number)) for number in range(count)}


def packet(name: str, qtype: int = 1) -> bytes:
    """Return a plain query with RD set and the ID 0."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 0, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, qtype, 1)


def hit(name: str, address: str) -> Query:
    """Return a query for *name*, which has *address*."""
    return Query(packet(name), HIT, NOERROR, IPv4Address(address).packed)


def miss(name: str) -> Query:
    """Return a query for *name*, which doesn't exist."""
    return Query(packet(name), MISS, NXDOMAIN)


def junk(chance: random.Random) -> Query:
    """Return a malformed packet: cut short, with bytes changed, or noise; no answer to it is looked at."""
    whole = packet(f"junk-{chance.randrange(10**6)}.{DOMAIN}")
    kind = chance.randrange(3)
    if kind == 0:
        rest = whole[2 : chance.randrange(2, len(whole))]
    elif kind == 1:
        damaged = bytearray(whole[2:])
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        rest = bytes(damaged)
    else:
        rest = chance.randbytes(chance.randrange(200))
    return Query(_JUNK_ID + rest, JUNK)


def make(mix: Mix) -> list[Query]:
    """Return the shuffled queries of *mix*, the same for everyone: each name equally often, every miss another name."""
    chance = random.Random(20_000 + mix.names)  # noqa: S311 - the same queries in every run
    known = list(addresses(mix.names).items())
    total = max(mix.names, FEWEST)
    misses, rubbish = round(total * mix.misses), round(total * mix.junk)
    queries = [hit(*known[number % len(known)]) for number in range(total - misses - rubbish)]
    queries += [miss(f"missing-{chance.randrange(16**8):08x}.{DOMAIN}") for _ in range(misses)]
    queries += [junk(chance) for _ in range(rubbish)]
    chance.shuffle(queries)
    return queries


def text(query: Query) -> str:
    """Return the line of dnsperf's file: the name, and the type A."""
    labels, at = [], 12
    while length := query.packet[at]:
        labels.append(query.packet[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return f"{'.'.join(labels)} A\n"


def encoded(queries: Sequence[Query]) -> Iterator[bytes]:
    """Yield the client's file in pieces."""
    return (query.encode() for query in queries)
