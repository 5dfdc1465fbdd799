"""The numbers in DNS messages, and the headers of responses to ordinary queries (RFC 1035, 4.1; RFC 6891)."""

import itertools
import struct
from collections.abc import Mapping
from functools import lru_cache

HEADER_SIZE = 12
QR, OPCODE, AA, TC, RD = 0x80, 0x78, 0x04, 0x02, 0x01
"""Bits of a message's third byte."""
AD, CD = 0x20, 0x10
"""Bits of a message's fourth byte; its lower four are the rcode."""

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16
A, NS, SOA, AAAA, OPT, IXFR, AXFR, ANY = 1, 2, 6, 28, 41, 251, 252, 255
IN = 1
FAST_TYPES = (A, AAAA, 5, 12, 15, 16, 33, 35, 64, 65)
"""The types that the fast path answers: A and AAAA, and CNAME PTR MX TXT SRV NAPTR SVCB HTTPS, which no name has."""

TYPES = {
    A: "A", AAAA: "AAAA", 5: "CNAME", 12: "PTR", 15: "MX", 16: "TXT", 33: "SRV", 35: "NAPTR", 64: "SVCB", 65: "HTTPS",
    NS: "NS", SOA: "SOA", ANY: "ANY",
}  # fmt: skip
"""The names of the types that have a count of their own."""
RCODES = {
    NOERROR: "NOERROR", FORMERR: "FORMERR", SERVFAIL: "SERVFAIL", NXDOMAIN: "NXDOMAIN", NOTIMP: "NOTIMP",
    REFUSED: "REFUSED", BADVERS: "BADVERS",
}  # fmt: skip
"""The names of all rcodes that responses have."""

UDP_MINIMUM = 512
"""The size of a response, in bytes, that every client accepts by UDP."""
UDP_MAXIMUM = 1232
"""The number of bytes that fit in a UDP packet without fragments. Larger responses are truncated for all clients."""
STREAM_MAXIMUM = 65535

NSID, EDE = 3, 15
"""Codes of options of an OPT record: the server's identifier (RFC 5001), and the cause of an error (RFC 8914)."""
NOT_READY = struct.pack("!HHH", EDE, 2, 14)
"""The option that says that the server has no records yet (RFC 8914, 4.15)."""

_ORDINARY_BITS = tuple(bytes((rd, ad | cd)) for rd, ad, cd in itertools.product((0, RD), (0, AD), (0, CD)))


def opt_record(rcode: int = NOERROR, options: bytes = b"", *, dnssec_ok: bool = False) -> bytes:
    """Return the OPT record of a response."""
    flags = 0x8000 if dnssec_ok else 0
    return struct.pack("!BHHBBHH", 0, OPT, UDP_MAXIMUM, rcode >> 4, 0, flags, len(options)) + options


def ordinary_heads(*, opt: bool) -> frozenset[bytes]:
    """Return all strings of 10 bytes that can follow the ID of an ordinary query: its flags and counts.

    RD, AD and CD can be set or not. The count of questions is 1. With *opt* there is one additional record, else
    none.
    """
    counts = struct.pack("!4H", 1, 0, 0, opt)
    return frozenset(bits + counts for bits in _ORDINARY_BITS)


@lru_cache(maxsize=4096)
def response_heads(rcode: int, answers: int, authority: int) -> Mapping[bytes, bytes]:
    """Return a map from the flags and counts of each ordinary query (10 bytes) to those of its response.

    The response has *rcode*, and these numbers of *answers* and *authority* records.
    """
    heads = {}
    for bits, opt in itertools.product(_ORDINARY_BITS, (0, 1)):
        flags = bytes((QR | authoritative(rcode) | bits[0] & RD, bits[1] & CD | rcode & 0xF))
        heads[bits + struct.pack("!4H", 1, 0, 0, opt)] = flags + struct.pack("!4H", 1, answers, authority, opt)
    return heads


def question_of(response: bytes) -> tuple[bytes, int]:
    """Return the name and type in the question of our *response*; if it has no question, an empty name and 0."""
    if response[5] == 0:
        return b"", 0
    at = HEADER_SIZE
    while length := response[at]:
        at += length + 1
    return response[HEADER_SIZE : at + 1], int.from_bytes(response[at + 1 : at + 3], "big")


def authoritative(rcode: int) -> int:
    """Return the bit AA if a response with *rcode* comes from the content of a zone, else 0."""
    return AA if rcode in {NOERROR, NXDOMAIN} else 0
