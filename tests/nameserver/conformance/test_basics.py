"""What every nameserver must do with plain queries, odd flags and other opcodes (RFC 8906)."""

from typing import NamedTuple

import dns.flags
import dns.message
import dns.rcode
import pytest

from tests.nameserver.conformance.conftest import Ask, Send
from tests.nameserver.conformance.packets import NOTIMP, numbered, rcode
from tests.nameserver.conformance.process import Server
from tests.nameserver.conformance.zone import DB, NEGATIVE, POSITIVE, SOA, Case
from tests.nameserver.samples import make_query, texts, wire

NAMES = (DB, "ts.net", "tail1234.ts.net", "no.ts.net")
AUTHORITATIVE = dns.flags.QR | dns.flags.AA


def test_01_the_soa_is_answered_without_recursion_and_edns(ask: Ask) -> None:
    response = ask(make_query("ts.net", "SOA", flags=0))
    assert response.rcode() == dns.rcode.NOERROR
    assert texts(response) == [SOA]
    assert response.flags == AUTHORITATIVE
    assert response.edns == -1


@pytest.mark.parametrize("case", POSITIVE + NEGATIVE, ids=str)
def test_01_every_answer_is_authoritative(ask: Ask, case: Case) -> None:
    response = ask(make_query(case.name, case.qtype, flags=0))
    assert (dns.rcode.to_text(response.rcode()), tuple(texts(response))) == (case.rcode, case.answers)
    assert response.flags & ~0xF == AUTHORITATIVE


@pytest.mark.parametrize("name", ["ts.net", DB])
def test_02_an_unknown_type_is_nodata(ask: Ask, name: str) -> None:
    response = ask(make_query(name, "TYPE1000"))
    assert (response.rcode(), response.answer) == (dns.rcode.NOERROR, [])
    assert [rrset.to_text().split(" ", 4)[3] for rrset in response.authority] == ["SOA"]


class Flags(NamedTuple):
    asked: int
    answered: int


def flags_of(ask: Ask, asked: int) -> set[int]:
    return {ask(make_query(name, flags=asked)).flags & ~0xF for name in NAMES}


@pytest.mark.parametrize("asked", [dns.flags.CD, dns.flags.CD | dns.flags.AD, dns.flags.AD], ids=hex)
def test_03_ad_is_cleared_and_cd_copied(ask: Ask, asked: int) -> None:
    assert flags_of(ask, asked) == {AUTHORITATIVE | asked & dns.flags.CD}


def test_04_z_is_cleared(ask: Ask) -> None:
    assert flags_of(ask, 0x40) == {AUTHORITATIVE}


@pytest.mark.parametrize("asked", [dns.flags.RD, dns.flags.RD | dns.flags.RA | dns.flags.AA | dns.flags.TC], ids=hex)
def test_05_rd_is_copied_and_no_recursion_offered(ask: Ask, asked: int) -> None:
    assert flags_of(ask, asked) == {AUTHORITATIVE | dns.flags.RD}


def headers(opcode: int) -> list[bytes]:
    """Return a query of *opcode* that is a header alone, as dig's +header-only makes it, and one with a question."""
    whole = bytearray(wire("ts.net", "SOA", flags=0))
    whole[2] |= opcode << 3
    return [bytes(whole[:4]) + bytes(8), bytes(whole)]


def check_not_implemented(send: Send, opcode: int) -> None:
    for query in headers(opcode):
        response = send(numbered(query, 0xABCD))
        assert response == b"\xab\xcd" + bytes([0x80 | opcode << 3, NOTIMP]) + bytes(8)
        assert rcode(response) == NOTIMP


@pytest.mark.parametrize("opcode", [3, 6, 15])
def test_06_an_unknown_opcode_is_not_implemented(server: Server, opcode: int) -> None:
    check_not_implemented(server.udp, opcode)


@pytest.mark.parametrize("opcode", [3, 6, 15])
def test_07_an_unknown_opcode_is_not_implemented_by_tcp_too(server: Server, opcode: int) -> None:
    check_not_implemented(server.tcp, opcode)
