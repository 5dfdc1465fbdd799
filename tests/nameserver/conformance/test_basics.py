"""The required answers to plain queries, unusual flags and other opcodes (RFC 8906)."""

import dns.flags
import dns.rcode
import pytest

from tests.nameserver.conformance.conftest import Ask, Send
from tests.nameserver.conformance.packets import OPT, numbered
from tests.nameserver.conformance.zone import DB, NEGATIVE, POSITIVE, Case
from tests.nameserver.samples import make_query, parsed, texts, wire

AUTHORITATIVE = dns.flags.QR | dns.flags.AA
RD, CD, AD, Z = dns.flags.RD, dns.flags.CD, dns.flags.AD, 0x40


@pytest.mark.parametrize("case", POSITIVE + NEGATIVE, ids=str)
def test_01_every_answer_about_the_zone_is_authoritative(ask: Ask, case: Case) -> None:
    response = ask(make_query(case.name, case.qtype, flags=0))
    assert (dns.rcode.to_text(response.rcode()), tuple(texts(response))) == (case.rcode, case.answers)
    assert response.flags & ~0xF == AUTHORITATIVE


@pytest.mark.parametrize(
    ("asked", "copied"),
    [(CD, CD), (CD | AD, CD), (AD, 0), (Z, 0), (RD, RD), (RD | dns.flags.RA | dns.flags.AA | dns.flags.TC, RD)],
    ids=hex,
)
def test_03_04_05_an_answer_copies_cd_and_rd_but_no_other_flag_of_the_query(ask: Ask, asked: int, copied: int) -> None:
    for name in (DB, "ts.net", "tail1234.ts.net", "no.ts.net"):
        assert ask(make_query(name, flags=asked)).flags & ~0xF == AUTHORITATIVE | copied


@pytest.mark.parametrize("opcode", [3, 6, 15])
def test_06_07_a_query_with_an_unknown_opcode_gets_notimp(send: Send, opcode: int) -> None:
    whole = bytearray(wire("ts.net", "SOA", flags=RD | dns.flags.RA | AD | CD))
    whole[2] |= opcode << 3
    for query in (bytes(whole), bytes(whole[:4]) + bytes(8)):  # with its question, and as dig's +header-only sends it
        response = send(numbered(query, 0xABCD))
        assert response == b"\xab\xcd" + bytes([0x80 | opcode << 3 | 1, 0x10 | dns.rcode.NOTIMP]) + bytes(8)
    with_opt = parsed(send(bytes(whole[:10]) + b"\0\1" + bytes(whole[12:]) + OPT))
    assert (with_opt.rcode(), with_opt.edns) == (dns.rcode.NOTIMP, 0)
