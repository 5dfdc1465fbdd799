"""Tests of reading queries; malformed ones are those of conformance 16, 17, 21, 23, 34 and 35."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.errors import FormatError
from tsnameserver.query import Opt, parse_query

from tests.nameserver.samples import wire

QUESTION = b"\x02Ts\x03neT\x00\x00\x1c\x00\x03"
OPT = bytes.fromhex("00 0029 0800 00 01 8000 0000")


def message(*counts: int, rest: bytes) -> bytes:
    return bytes(4) + struct.pack("!4H", *counts) + rest


def test_the_fields_of_a_question_are_read() -> None:
    query = parse_query(message(1, 0, 0, 0, rest=QUESTION))
    assert query == (QUESTION, b"\x02ts\x03net\x00", 28, 3, None)


def test_an_opt_record_is_read() -> None:
    assert parse_query(message(1, 0, 0, 1, rest=QUESTION + OPT)).opt == Opt(0x800, 1, dnssec_ok=True)


def test_a_record_before_the_opt_record_is_skipped() -> None:
    other = b"\xc0\x0c" + struct.pack("!HHIH", 250, 255, 0, 3) + b"abc"
    assert parse_query(message(1, 0, 0, 2, rest=QUESTION + other + OPT)).opt is not None
    assert parse_query(message(1, 0, 1, 1, rest=QUESTION + other + OPT)).opt is not None


@given(st.binary(min_size=12, max_size=100))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        query = parse_query(data)
    except FormatError:
        return
    assert data[12:].startswith(query.question)


def test_a_query_that_is_cut_short_is_refused() -> None:
    whole = wire("db.tail1234.ts.net", use_edns=0)
    for end in range(12, len(whole)):
        with pytest.raises(FormatError):
            parse_query(whole[:end])
