"""Tests of message heads."""

import struct

from tsnameserver.message import (
    AA,
    FORMERR,
    NXDOMAIN,
    QR,
    RD,
    bare_response,
    opt_record,
    ordinary_heads,
    response_heads,
)


def test_a_head_copies_rd_and_cd_and_clears_ad() -> None:
    heads = response_heads(NXDOMAIN, 0, 1)
    asked = bytes((RD, 0x30)) + struct.pack("!4H", 1, 0, 0, 1)
    assert heads[asked] == bytes((QR | AA | RD, 0x10 | NXDOMAIN)) + struct.pack("!4H", 1, 0, 1, 1)


def test_every_ordinary_query_has_a_head() -> None:
    assert response_heads(0, 2, 0).keys() == ordinary_heads(opt=False) | ordinary_heads(opt=True)
    assert len(ordinary_heads(opt=True)) == 8


def test_a_bare_response_is_a_header_that_echoes_id_opcode_rd_and_cd() -> None:
    query = b"\x12\x34\x7f\xff" + b"\xff" * 20
    assert bare_response(query, FORMERR) == b"\x12\x34" + bytes((0x80 | 0x78 | 0x01, 0x10 | FORMERR)) + bytes(8)


def test_the_opt_record_carries_the_high_bits_of_the_rcode() -> None:
    assert opt_record(16, dnssec_ok=True) == bytes.fromhex("00 0029 04d0 01 00 8000 0000")
