"""Messages as bytes, for what a well-behaved client can't say."""

import struct

from tests.nameserver.samples import wire

IN_TS_NET = b"\x02ts\x03net\0"
A_IN = b"\0\1\0\1"
OPT = struct.pack("!BHHIH", 0, 41, 1232, 0, 0)
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)


def message(*parts: bytes, counts: tuple[int, int, int, int] = (1, 0, 0, 0), flags: int = 0, ident: int = 1) -> bytes:
    """Return a header with *parts* after it."""
    return struct.pack("!HH4H", ident, flags, *counts) + b"".join(parts)


def label(data: bytes) -> bytes:
    """Return one label, whatever is in it."""
    return bytes([len(data)]) + data


def rcode(response: bytes) -> int:
    """Return the response code of the header."""
    return response[3] & 0xF


def numbered(query: bytes, ident: int) -> bytes:
    """Return *query* with another ID."""
    return ident.to_bytes(2, "big") + query[2:]


def framed(query: bytes) -> bytes:
    """Return *query* as it travels by TCP."""
    return len(query).to_bytes(2, "big") + query


GOOD = wire("db.tail1234.ts.net")
