"""Queries answered from a zone: the whole protocol, without a socket.

Nearly every query is ordinary: plain flags, one question in a zone, at most a plain OPT record. It is answered by
looking up its flags and its name, and copying what the zone has compiled. All else goes to `general`, which reads field
by field and answers ordinary queries just the same.
"""

import struct

from tsnameserver.counters import MISS, Counts
from tsnameserver.errors import FormatError
from tsnameserver.message import (
    AA,
    AXFR,
    BADVERS,
    CD,
    FAST_TYPES,
    FORMERR,
    HEADER_SIZE,
    IN,
    IXFR,
    NOERROR,
    NOTIMP,
    NXDOMAIN,
    OPCODE,
    OPT,
    QR,
    RD,
    REFUSED,
    SERVFAIL,
    STREAM_MAXIMUM,
    TC,
    UDP_MAXIMUM,
    UDP_MINIMUM,
    bare_response,
    opt_record,
    ordinary_heads,
)
from tsnameserver.names import MAX_LABEL, MAX_NAME
from tsnameserver.nodes import MASK
from tsnameserver.query import Query, parse_query
from tsnameserver.zone import Section, Zone, section

_PLAIN = ordinary_heads(opt=False)
_WITH_OPT = ordinary_heads(opt=True)
_OPT_START = struct.pack("!BH", 0, OPT)
"""The start of an OPT record (root, type); what is between it and the end is the client's UDP size."""
_OPT_REPLIES = {
    struct.pack("!BBHH", 0, 0, 0x8000 if dnssec_ok else 0, 0): opt_record(dnssec_ok=dnssec_ok)
    for dnssec_ok in (False, True)
}
"""The end of a plain OPT record (extended rcode, version, flags, no options), to the OPT record of the response."""
_SLOTS = {struct.pack("!HH", qtype, IN): slot for slot, qtype in enumerate(FAST_TYPES)}
"""Types and class that the fast path answers, to where they are counted: 0 is A and 1 is AAAA."""

_PARENT = tuple(slice(length + 1, None) if 0 < length <= MAX_LABEL else slice(0) for length in range(256))
"""The length byte of a name's first label, to where in the name its parent is; nowhere, for no length of a label."""

_REFUSED = section(REFUSED)
_SERVFAIL = section(SERVFAIL)
_BADVERS = section(BADVERS)


def answer(query: bytes, zone: Zone, counts: Counts | None = None, *, stream: bool = False) -> bytes | None:
    """Return the response to *query*, received by UDP or over a *stream*; None where there must be none."""
    flags = query[2:12]
    if flags in _PLAIN:
        question = query[12:]
        opt = b""
    elif flags in _WITH_OPT and query[-11:-8] == _OPT_START and query[-6:] in _OPT_REPLIES:
        question = query[12:-11]
        opt = _OPT_REPLIES[query[-6:]]
    else:
        return _general(query, zone, counts, stream=stream)
    slot = _SLOTS.get(question[-4:])
    if slot is None:
        return _general(query, zone, counts, stream=stream)
    name = question[:-4].lower()
    buckets = zone.nodes.buckets
    node = buckets[hash(name) & MASK].get(name)
    if node is not None:
        found = (node.a if slot == 0 else node.aaaa if slot == 1 else None) or zone.apexes[node.origin].nodata
    else:
        parent = name[_PARENT[query[12]]]  # which nearly every name has that is missing
        node = buckets[hash(parent) & MASK].get(parent)
        if node is None:
            node = zone.encloser(name)
        if node is None or len(name) > MAX_NAME:
            return _general(query, zone, counts, stream=stream)
        found = zone.apexes[node.origin].nxdomain
        slot += MISS
    response = b"".join((query[:2], found.heads[flags], question, found.body, opt))
    if len(response) > UDP_MINIMUM:
        return _general(query, zone, counts, stream=stream)
    if counts is not None:
        counts.fast[slot] += 1
    return response


def general(query: bytes, zone: Zone, *, stream: bool = False) -> bytes | None:
    """Do the same as `answer`, for every query there is."""
    if len(query) < HEADER_SIZE or query[2] & QR:
        return None
    if query[2] & OPCODE:
        return bare_response(query, NOTIMP)
    try:
        asked = parse_query(query)
    except FormatError:
        return bare_response(query, FORMERR)
    return _response(query, asked, _decide(asked, zone), _size_limit(asked, stream=stream))


def _general(query: bytes, zone: Zone, counts: Counts | None, *, stream: bool) -> bytes | None:
    response = general(query, zone, stream=stream)
    if counts is not None:
        counts.add_general(response)
    return response


def failure(query: bytes) -> bytes | None:
    """Return SERVFAIL for a *query* that couldn't be answered; None where there must be no response."""
    if len(query) < HEADER_SIZE or query[2] & QR:
        return None
    return bare_response(query, SERVFAIL)


def _decide(asked: Query, zone: Zone) -> Section:
    if asked.opt is not None and asked.opt.version != 0:
        return _BADVERS
    apex = zone.apex_of(asked.qname)
    if apex is None or asked.qclass != IN or asked.qtype in {AXFR, IXFR}:
        return _REFUSED
    if not zone.loaded:
        return _SERVFAIL
    return zone.find(asked.qname, asked.qtype, apex)


def _size_limit(asked: Query, *, stream: bool) -> int:
    if stream:
        return STREAM_MAXIMUM
    if asked.opt is None:
        return UDP_MINIMUM
    return min(max(asked.opt.size, UDP_MINIMUM), UDP_MAXIMUM)


def _response(query: bytes, asked: Query, found: Section, limit: int) -> bytes:
    """Put a response together; what is larger than *limit* bytes is truncated to the question (RFC 2181, 9)."""
    opt = b"" if asked.opt is None else opt_record(found.rcode, dnssec_ok=asked.opt.dnssec_ok)
    fits = HEADER_SIZE + len(asked.question) + len(found.body) + len(opt) <= limit
    counts = (found.answers, found.authority) if fits else (0, 0)
    high = QR | query[2] & RD | (0 if fits else TC) | (AA if found.rcode in {NOERROR, NXDOMAIN} else 0)
    low = query[3] & CD | found.rcode & 0xF
    head = query[:2] + bytes((high, low)) + struct.pack("!4H", 1, *counts, 1 if opt else 0)
    return head + asked.question + (found.body if fits else b"") + opt
