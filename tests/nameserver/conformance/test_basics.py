"""What every nameserver must do with plain queries, odd flags and other opcodes (RFC 8906)."""

import dns.flags
import dns.rcode
import pytest

from tests.nameserver.conformance.conftest import Ask, Send
from tests.nameserver.conformance.packets import NOTIMP, OPT, numbered
from tests.nameserver.conformance.process import Server
from tests.nameserver.conformance.zone import DB, NEGATIVE, POSITIVE, Case, check_nodata
from tests.nameserver.samples import make_query, parsed, texts, wire

AUTHORITATIVE = dns.flags.QR | dns.flags.AA


@pytest.mark.parametrize("case", POSITIVE + NEGATIVE, ids=str)
def test_01_every_answer_is_authoritative(ask: Ask, case: Case) -> None:
    response = ask(make_query(case.name, case.qtype, flags=0))
    assert (dns.rcode.to_text(response.rcode()), tuple(texts(response))) == (case.rcode, case.answers)
    assert response.flags & ~0xF == AUTHORITATIVE


@pytest.mark.parametrize("name", ["ts.net", DB])
def test_02_an_unknown_type_is_nodata(ask: Ask, name: str) -> None:
    check_nodata(ask(make_query(name, "TYPE1000")))


def flags_of(ask: Ask, asked: int) -> set[int]:
    """Return the flags of answers of each kind to queries with the flags *asked*."""
    names = (DB, "ts.net", "tail1234.ts.net", "no.ts.net")
    return {ask(make_query(name, flags=asked)).flags & ~0xF for name in names}


@pytest.mark.parametrize("asked", [dns.flags.CD, dns.flags.CD | dns.flags.AD, dns.flags.AD], ids=hex)
def test_03_ad_is_cleared_and_cd_copied(ask: Ask, asked: int) -> None:
    assert flags_of(ask, asked) == {AUTHORITATIVE | asked & dns.flags.CD}


def test_04_z_is_cleared(ask: Ask) -> None:
    assert flags_of(ask, 0x40) == {AUTHORITATIVE}


@pytest.mark.parametrize("asked", [dns.flags.RD, dns.flags.RD | dns.flags.RA | dns.flags.AA | dns.flags.TC], ids=hex)
def test_05_rd_is_copied_and_no_recursion_offered(ask: Ask, asked: int) -> None:
    assert flags_of(ask, asked) == {AUTHORITATIVE | dns.flags.RD}


def check_not_implemented(send: Send, opcode: int) -> None:
    """Send a query of *opcode* with its question, and without it as dig's +header-only does."""
    whole = bytearray(wire("ts.net", "SOA", flags=dns.flags.RD | dns.flags.RA | dns.flags.AD | dns.flags.CD))
    whole[2] |= opcode << 3
    for query in (bytes(whole), bytes(whole[:4]) + bytes(8)):
        response = send(numbered(query, 0xABCD))
        assert response == b"\xab\xcd" + bytes([0x80 | opcode << 3 | 1, 0x10 | NOTIMP]) + bytes(8)
    with_opt = parsed(send(bytes(whole[:10]) + b"\0\1" + bytes(whole[12:]) + OPT))
    assert (with_opt.rcode(), with_opt.edns) == (NOTIMP, 0)


@pytest.mark.parametrize("opcode", [3, 6, 15])
def test_06_an_unknown_opcode_is_not_implemented(server: Server, opcode: int) -> None:
    check_not_implemented(server.udp, opcode)


def test_07_an_unknown_opcode_is_not_implemented_by_tcp_too(server: Server) -> None:
    check_not_implemented(server.tcp, 15)
