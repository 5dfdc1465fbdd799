"""Reads queries field by field (RFC 1035, 4.1; RFC 6891, 6.1)."""

import struct
from typing import NamedTuple

from tsnameserver.errors import FormatError
from tsnameserver.message import HEADER_SIZE, NSID, OPT
from tsnameserver.names import MAX_LABEL, MAX_NAME

_MOST_RECORDS = (1, 1, 2)
"""The numbers of answers, authority records (an IXFR's SOA) and additional ones (OPT, signature) that are allowed."""


class Opt(NamedTuple):
    """The facts that a client states in its OPT record."""

    size: int
    """The number of bytes of UDP payload that the client accepts."""
    version: int
    dnssec_ok: bool
    nsid: bool = False
    """True if the client asks which server answers."""


class Query(NamedTuple):
    """A well-formed query with one question."""

    question: bytes
    """The question as the client sent it, byte for byte."""
    qname: bytes
    """The name, lower-cased."""
    qtype: int
    qclass: int
    opt: Opt | None


def parse_query(data: bytes) -> Query:
    """Return the query in *data*, which has at least the length of a header; raises FormatError."""
    questions, *records = struct.unpack_from("!4H", data, 4)
    if questions != 1:
        raise FormatError("not one question")
    if any(count > most for count, most in zip(records, _MOST_RECORDS, strict=True)):
        raise FormatError("more records than a query has")
    try:
        name_end = _end_of_name(data, HEADER_SIZE)
        qtype, qclass = struct.unpack_from("!HH", data, name_end)
        opt, end = _read_records(data, name_end + 4, sum(records[:2]), records[2])
    except (IndexError, struct.error) as error:
        raise FormatError("it ends too soon") from error
    if end != len(data):
        raise FormatError("bytes after the last record")
    question = data[HEADER_SIZE : name_end + 4]
    return Query(question, question[:-4].lower(), qtype, qclass, opt)


def has_opt(data: bytes) -> bool:
    """Tell whether the readable part of *data* has an OPT record. *data* has at least the length of a header."""
    questions, answers, authority, additional = struct.unpack_from("!4H", data, 4)
    at = HEADER_SIZE
    try:
        for _ in range(questions):
            at = _skip_name(data, at) + 4
        for number in range(answers + authority + additional):
            end_of_owner = _skip_name(data, at)
            rtype, _, _, size = struct.unpack_from("!HHIH", data, end_of_owner)
            if rtype == OPT and number >= answers + authority and not data[at]:
                return True
            at = end_of_owner + 10 + size
    except (IndexError, struct.error):  # the message ends too soon
        return False
    return False


def _end_of_name(data: bytes, start: int) -> int:
    """Return the offset after the name at *start*. A compressed name is an error: no name comes before this one."""
    at = start
    while length := data[at]:
        if length > MAX_LABEL:
            raise FormatError("a compression pointer or an unknown kind of label")
        at += length + 1
    if at + 1 - start > MAX_NAME:
        raise FormatError("a name that is too long")
    return at + 1


def _skip_name(data: bytes, start: int) -> int:
    at = start
    while length := data[at]:
        if length >= 0xC0:
            return at + 2
        at += length + 1
    return at + 1


def _read_records(data: bytes, at: int, before: int, additional: int) -> tuple[Opt | None, int]:
    """Return the OPT record and the offset after the last record; *before* records precede the additional ones."""
    opt = None
    for index in range(before + additional):
        end_of_owner = _skip_name(data, at)
        rtype, rclass, ttl, size = struct.unpack_from("!HHIH", data, end_of_owner)
        if rtype == OPT:
            if index < before or opt is not None or data[at]:
                raise FormatError("an OPT record that is misplaced, repeated or owned")
            version = ttl >> 16 & 0xFF
            codes = _option_codes(data[end_of_owner + 10 : end_of_owner + 10 + size], version)
            opt = Opt(rclass, version, bool(ttl & 0x8000), NSID in codes)
        at = end_of_owner + 10 + size
        if at > len(data):
            raise FormatError("a record that ends past the message")
    return opt, at


def _option_codes(options: bytes, version: int) -> set[int]:
    """Return the codes of *options*.

    Malformed options raise FormatError if *version* is 0. For another version, which can have another format of
    options, return an empty set.
    """
    codes, at = set[int](), 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from("!HH", options, at)
        codes.add(code)
        at += 4 + size
    if at == len(options):
        return codes
    if version == 0:
        raise FormatError("an option that ends past its record")
    return set()
