"""The names that the servers serve, and the queries with their right answers (pure)."""

import random
import string
import struct
from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import IPv4Address
from typing import NamedTuple

from dnsload.client import JUNK, PORTLESS, Query

ZONE = "ts.net"
DOMAIN = f"tail1234.{ZONE}"
CHANGING = f"changing.{DOMAIN}"
"""A name whose address the benchmark changes, to see when a server has reloaded. It isn't in the client's queries."""
NXDOMAIN, REFUSED = 3, 5
FEWEST = 10_000
"""The smallest number of queries in a file.

If there are fewer names, hits ask for them repeatedly, while each miss asks for a new name.
"""
_FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))
_JUNK_ID = b"\xff\xff"
_DEEP_LABELS = 120 - DOMAIN.count(".") - 1
"""The number of one-letter labels before the domain in a deep name, which has 120 labels."""


class Hostile(StrEnum):
    """The sorts of hostile packets."""

    MALFORMED = "malformed"
    PORTLESS = "source port 0"
    DEEP = "deep names"
    COOKIES = "cookies"


class Mix(NamedTuple):
    """A mix of queries: the number of names that the server has, and the shares of the sorts below.

    The rest of the queries are hits without a cookie.
    """

    names: int
    misses: float = 0.1
    deep: float = 0.0
    """The share of queries for deep names. These names have 120 labels, and don't exist."""
    cookies: float = 0.0
    """The share of queries that are hits with a DNS cookie (RFC 7873), such as BIND sends."""
    outside: float = 0.0
    """The share of queries for names outside the zone."""
    hostile: tuple[Hostile, ...] = ()
    hostility: float = 0.0
    """The share of hostile packets. The sorts in *hostile* are equally frequent among them."""


def addresses(count: int) -> dict[str, str]:
    """Return *count* names and the address of each."""
    return {f"name-{number:06d}.{DOMAIN}": str(IPv4Address(_FIRST_ADDRESS + number)) for number in range(count)}


def packet(name: str, *, cookie: bytes = b"") -> bytes:
    """Return a query for the A records of *name*, with RD set and the ID 0.

    If *cookie* isn't empty, the query has it as an EDNS option.
    """
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    plain = struct.pack("!6H", 0, 0x0100, 1, 0, 0, bool(cookie)) + labels + struct.pack("!BHH", 0, 1, 1)
    if not cookie:
        return plain
    return plain + struct.pack("!BHHIHHH", 0, 41, 1232, 0, 4 + len(cookie), 10, len(cookie)) + cookie


def hit(name: str, address: str, *, cookie: bytes = b"") -> Query:
    """Return a query for *name*, whose right answer is *address*."""
    return Query(packet(name, cookie=cookie), addresses=(IPv4Address(address).packed,))


def miss(name: str, rcode: int = NXDOMAIN) -> Query:
    """Return a query for *name*, which no server has, so that the right answer is *rcode* without an address."""
    return Query(packet(name), rcode=rcode)


def deep_name(chance: random.Random) -> str:
    """Return a name of 120 labels, chosen by *chance*."""
    return ".".join(chance.choices(string.ascii_lowercase, k=_DEEP_LABELS)) + f".{DOMAIN}"


def junk(chance: random.Random) -> Query:
    """Return a malformed packet: a query that is cut short, a query with changed bytes, or random bytes."""
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


def _unawaited(query: Query, kind: int = JUNK) -> Query:
    """Return *query* as a packet of this *kind*, for which the client awaits no answer."""
    return Query(_JUNK_ID + query.packet[2:], kind)


_HOSTILE: Mapping[Hostile, Callable[[random.Random, str], Query]] = {
    Hostile.MALFORMED: lambda chance, _: junk(chance),
    Hostile.PORTLESS: lambda _, name: _unawaited(miss(name), PORTLESS),
    Hostile.DEEP: lambda chance, _: _unawaited(miss(deep_name(chance))),
    Hostile.COOKIES: lambda chance, name: Query(_JUNK_ID + packet(name, cookie=chance.randbytes(8))[2:], JUNK),
}
"""The function that makes each sort of hostile packet, from a random generator and an existing name."""


def make(mix: Mix) -> list[Query]:
    """Return the queries of *mix* in random order. All servers and runs get the same queries in the same order.

    Hits ask for all names equally often. Each miss asks for a different name.
    """
    chance = random.Random(20_000 + mix.names)  # noqa: S311 - the same queries in every run
    known = list(addresses(mix.names).items())
    total = max(mix.names, FEWEST)
    misses, deep, cookies, outside, hostile = (
        round(total * share) for share in (mix.misses, mix.deep, mix.cookies, mix.outside, mix.hostility)
    )
    hits = total - misses - deep - outside - hostile
    queries = [
        hit(*known[number % len(known)], cookie=chance.randbytes(8) if number < cookies else b"")
        for number in range(hits)
    ]
    queries += [miss(f"missing-{chance.randrange(16**8):08x}.{DOMAIN}") for _ in range(misses)]
    queries += [miss(deep_name(chance)) for _ in range(deep)]
    queries += [miss(f"name-{number:06d}.example.org", REFUSED) for number in range(outside)]
    for number in range(hostile):
        sort = mix.hostile[number % len(mix.hostile)]
        queries.append(_HOSTILE[sort](chance, known[number % len(known)][0]))
    chance.shuffle(queries)
    return queries


def text(query: Query) -> str:
    """Return the line for *query* in dnsperf's file: the name in the query, and the type A."""
    labels, at = [], 12
    while length := query.packet[at]:
        labels.append(query.packet[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return f"{'.'.join(labels)} A\n"
