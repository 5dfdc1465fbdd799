"""Answers queries from a zone: this is the whole protocol, without a socket.

Nearly every query is ordinary: it has usual flags, one question and at most a usual OPT record. The fast path answers
such a query: it looks up the flags and the name, and copies the records that the zone has compiled. All other queries
go to the general path, `general`, which reads a query field by field. The general path would answer ordinary queries
with the same bytes.
"""

import struct

from tsnameserver.counters import MISS, REFUSAL, Counts
from tsnameserver.errors import FormatError
from tsnameserver.message import (
    AXFR,
    BADVERS,
    CD,
    FAST_TYPES,
    FORMERR,
    HEADER_SIZE,
    IN,
    IXFR,
    NOERROR,
    NOT_READY,
    NOTIMP,
    NSID,
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
    authoritative,
    opt_record,
    ordinary_heads,
    response_heads,
)
from tsnameserver.names import MAX_LABEL, MAX_NAME, is_name
from tsnameserver.nodes import MASK
from tsnameserver.query import Opt, Query, has_opt, parse_query
from tsnameserver.zone import OUTSIDE, RECORD_SIZES, Section, Zone, section

_PLAIN = ordinary_heads(opt=False)
_WITH_OPT = ordinary_heads(opt=True)
_OPT_START = struct.pack("!BH", 0, OPT)
"""The start of an OPT record: root, type. The client's UDP size follows."""
_OPT_REPLIES = {
    struct.pack("!BBH", 0, 0, 0x8000 if dnssec_ok else 0): opt_record(dnssec_ok=dnssec_ok)
    for dnssec_ok in (False, True)
}
"""The OPT record of the reply to an ordinary query.

A map from the extended rcode, version and flags in the query's OPT record to the OPT record of the reply.
"""
_NO_OPTIONS = bytes(2)
_PLAIN_OPT_REPLIES = {start + _NO_OPTIONS: reply for start, reply in _OPT_REPLIES.items()}
_QUESTION_END = struct.pack("!H", IN) + _OPT_START
"""The last bytes of a question and the first bytes of the OPT record that follows it: class IN, and `_OPT_START`."""
_NSID = struct.pack("!H", NSID)
_SLOTS = {struct.pack("!HH", qtype, IN): slot for slot, qtype in enumerate(FAST_TYPES)}
"""The slot in which the fast path counts a query: a map from the type and class of the question to the slot.

A has slot 0, AAAA slot 1.
"""
_SIZES = tuple(RECORD_SIZES.get(qtype, 0) for qtype in FAST_TYPES)

_PARENT = tuple(slice(length + 1, None) if 0 < length <= MAX_LABEL else slice(0) for length in range(256))
"""The slices that cut the first label off a wire name, by the length byte of this label.

The slice for an impossible length makes the name empty.
"""

_REFUSED = section(REFUSED)
_SERVFAIL = section(SERVFAIL)
_BADVERS = section(BADVERS)


def answer(query: bytes, zone: Zone, counts: Counts | None = None, *, stream: bool = False) -> bytes | None:
    """Return the response to *query*, received by UDP or over a *stream*; None if there must be no response."""
    flags = query[2:12]
    if flags in _PLAIN:
        question = query[12:]
        opt = b""
    elif flags in _WITH_OPT and query[-11:-8] == _OPT_START and query[-6:] in _PLAIN_OPT_REPLIES:
        question = query[12:-11]
        opt = _PLAIN_OPT_REPLIES[query[-6:]]
    elif flags in _WITH_OPT and (parts := _with_options(query)):
        question, opt = parts
    else:
        return _general(query, zone, counts, stream=stream)
    slot = _SLOTS.get(question[-4:])
    if slot is None:
        return _general(query, zone, counts, stream=stream)
    name = question[:-4].lower()
    buckets = zone.nodes.buckets
    node = buckets[hash(name) & MASK].get(name)
    if node is not None:
        body = node.a if slot == 0 else node.aaaa if slot == 1 else b""
        heads, body = (
            (response_heads(NOERROR, len(body) // _SIZES[slot], 0), body)
            if body
            else zone.apexes[node.origin].nodata[:2]
        )
    else:
        parent = name[_PARENT[query[12]]]  # the parent of nearly every missing name exists
        node = buckets[hash(parent) & MASK].get(parent)
        apex = zone.apexes[node.origin] if node is not None else zone.apex_of(name)
        if apex is None and is_name(name):
            apex = OUTSIDE
        if apex is None or len(name) > MAX_NAME or not zone.loaded:
            return _general(query, zone, counts, stream=stream)
        heads, body = apex.nxdomain[:2]
        slot += REFUSAL if apex is OUTSIDE else MISS
    response = b"".join((query[:2], heads[flags], question, body, opt))
    if len(response) > UDP_MINIMUM and not stream and len(response) > _offered(query, question, opt):
        response = _truncated(response, question, opt)
        if counts is not None:
            counts.truncated += 1
    if counts is not None:
        counts.fast[slot] += 1
    return response


def _with_options(query: bytes) -> tuple[bytes, bytes] | None:
    """Return the question in a *query* with EDNS options, and the OPT record for the response.

    Return None unless *query* ends with a usual OPT record in which we ignore all options. The search for
    `_QUESTION_END` can stop too early, inside a label that contains its bytes. In that case, the question has no valid
    name, and the lookup of the name finds nothing.
    """
    at = query.find(_QUESTION_END, HEADER_SIZE) + 2
    opt = _OPT_REPLIES.get(query[at + 5 : at + 9])
    if at < HEADER_SIZE or opt is None or int.from_bytes(query[at + 9 : at + 11], "big") != len(query) - at - 11:
        return None
    question = query[HEADER_SIZE:at]
    at += 11
    while at < len(query):
        if query[at : at + 2] == _NSID:
            return None
        at += 4 + int.from_bytes(query[at + 2 : at + 4], "big")
    return (question, opt) if at == len(query) else None


def _offered(query: bytes, question: bytes, opt: bytes) -> int:
    """Return the size limit, in bytes, of the UDP response to an ordinary query.

    It is the size in the OPT record of *query*, but at least UDP_MINIMUM and at most UDP_MAXIMUM. Without an *opt*, it
    is UDP_MINIMUM.
    """
    at = HEADER_SIZE + len(question) + len(_OPT_START)
    return min(max(int.from_bytes(query[at : at + 2], "big"), UDP_MINIMUM), UDP_MAXIMUM) if opt else UDP_MINIMUM


def _truncated(response: bytes, question: bytes, opt: bytes) -> bytes:
    """Return *response*, which is too long, marked as truncated and with no records but *opt* (RFC 2181, 9)."""
    flags = bytes((response[2] | TC, response[3]))
    return b"".join((response[:2], flags, response[4:6], bytes(4), response[10:12], question, opt))


def general(query: bytes, zone: Zone, *, stream: bool = False) -> bytes | None:
    """Do the same as `answer`, but take the general path for every query."""
    return _answered(query, zone, stream=stream)[0]


def _answered(query: bytes, zone: Zone, *, stream: bool) -> tuple[bytes | None, int]:
    """Return the response (None if there must be no response), and its rcode."""
    if len(query) < HEADER_SIZE or query[2] & QR:
        return None, NOERROR
    if query[2] & OPCODE:
        return _bare(query, NOTIMP), NOTIMP
    try:
        asked = parse_query(query)
    except FormatError:
        return _bare(query, FORMERR), FORMERR
    found = _decide(asked, zone)
    opt = _opt(asked.opt, found, zone) if asked.opt is not None else b""
    return _response(query, asked, found, opt, _size_limit(asked, stream=stream)), found.rcode


def _general(query: bytes, zone: Zone, counts: Counts | None, *, stream: bool) -> bytes | None:
    response, rcode = _answered(query, zone, stream=stream)
    if counts is not None:
        counts.add_general(response, rcode)
    return response


def failure(query: bytes) -> bytes | None:
    """Return SERVFAIL for a *query* that couldn't be answered; None if there must be no response."""
    if len(query) < HEADER_SIZE or query[2] & QR:
        return None
    return _bare(query, SERVFAIL)


def _bare(query: bytes, rcode: int) -> bytes:
    """Return an error response: it has *rcode*, but no question. *query* has at least 12 bytes."""
    opt = opt_record(rcode) if has_opt(query) else b""
    flags = bytes((QR | query[2] & (OPCODE | RD), query[3] & CD | rcode))
    return query[:2] + flags + struct.pack("!4H", 0, 0, 0, 1 if opt else 0) + opt


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


def _opt(asked: Opt, found: Section, zone: Zone) -> bytes:
    """Return the OPT record of the response to a query whose OPT record is *asked*."""
    options = struct.pack("!HH", NSID, len(zone.nsid)) + zone.nsid if asked.nsid and zone.nsid else b""
    if found is _SERVFAIL:
        options += NOT_READY
    return opt_record(found.rcode, options, dnssec_ok=asked.dnssec_ok)


def _response(query: bytes, asked: Query, found: Section, opt: bytes, limit: int) -> bytes:
    """Build a response. If it has more than *limit* bytes, truncate it to the question and *opt* (RFC 2181, 9)."""
    fits = HEADER_SIZE + len(asked.question) + len(found.body) + len(opt) <= limit
    counts = (found.answers, found.authority) if fits else (0, 0)
    high = QR | query[2] & RD | (0 if fits else TC) | authoritative(found.rcode)
    low = query[3] & CD | found.rcode & 0xF
    head = query[:2] + bytes((high, low)) + struct.pack("!4H", 1, *counts, 1 if opt else 0)
    return head + asked.question + (found.body if fits else b"") + opt
