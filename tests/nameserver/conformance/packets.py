"""DNS messages as bytes, for queries that a well-behaved client wouldn't send."""

import struct

import dns.rcode

from tests.nameserver.samples import wire

IN_TS_NET = b"\x02ts\x03net\0"
A_IN = b"\0\1\0\1"
OPT = struct.pack("!BHHIH", 0, 41, 1232, 0, 0)
GOOD = wire("db.tail1234.ts.net")
QUESTION = GOOD[12:]


def message(*parts: bytes, counts: tuple[int, int, int, int] = (1, 0, 0, 0), flags: int = 0) -> bytes:
    return struct.pack("!HH4H", 1, flags, *counts) + b"".join(parts)


def with_opt(*parts: bytes) -> bytes:
    return message(*parts, OPT, counts=(1, 0, 0, 1))


def label(data: bytes) -> bytes:
    """Return one label in wire form. *data* can be any bytes."""
    return bytes([len(data)]) + data


def rcode(response: bytes) -> str:
    return dns.rcode.to_text(dns.rcode.Rcode(response[3] & 0xF))


def numbered(query: bytes, ident: int) -> bytes:
    return ident.to_bytes(2, "big") + query[2:]


def framed(query: bytes) -> bytes:
    return len(query).to_bytes(2, "big") + query
