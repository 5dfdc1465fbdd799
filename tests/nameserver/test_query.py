"""Tests of reading queries."""

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


@pytest.mark.parametrize(
    "data",
    [
        message(0, 0, 0, 0, rest=b""),
        message(2, 0, 0, 0, rest=QUESTION + QUESTION),
        message(1, 0, 0, 0, rest=QUESTION + b"\0"),
        message(1, 0, 0, 0, rest=QUESTION[:-1]),
        message(1, 0, 0, 1, rest=QUESTION),
        message(1, 0, 0, 1, rest=QUESTION + OPT[:-1]),
        message(1, 0, 0, 2, rest=QUESTION + OPT + OPT),
        message(1, 0, 0, 1, rest=QUESTION + b"\x01x" + OPT),
        message(1, 0, 0, 1, rest=QUESTION + OPT[:-1] + b"\x05abcd"),
        message(1, 1, 0, 0, rest=QUESTION + OPT),
        message(1, 0, 0, 3, rest=QUESTION + OPT + OPT + OPT),
        message(1, 2, 0, 0, rest=QUESTION),
    ],
)
def test_a_malformed_query_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_query(data)


@given(st.binary(min_size=12, max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        query = parse_query(data)
    except FormatError:
        return
    assert data[12:].startswith(query.question)


@given(st.data())
def test_a_query_that_is_cut_short_is_refused(data: st.DataObject) -> None:
    whole = wire("db.tail1234.ts.net", use_edns=0)
    with pytest.raises(FormatError):
        parse_query(whole[: data.draw(st.integers(12, len(whole) - 1))])
