"""Conformance, asked over loopback with dnspython: RFC 8906, EDNS, names, negative answers (by UDP and TCP alike)."""

from typing import NamedTuple

import dns.asyncquery
import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.update
import pytest
from tsnameserver.answer import answer

from tests.nameserver.conftest import Ask, Running
from tests.nameserver.samples import MANY, make_query, parsed, texts

DB = "db.tail1234.ts.net"


class Case(NamedTuple):
    name: str
    qtype: str
    rcode: str
    answers: tuple[str, ...] = ()


ANSWERS = [
    Case(DB, "A", "NOERROR", ("100.64.0.1",)),
    Case(DB, "AAAA", "NOERROR", ("2001:db8::1",)),
    Case("v4.tail1234.ts.net", "A", "NOERROR", ("100.64.0.4", "100.64.0.3")),
    Case("mixed.tail1234.ts.net", "A", "NOERROR", ("100.64.0.5",)),
    Case("DB.TAIL1234.TS.NET", "A", "NOERROR", ("100.64.0.1",)),
    Case("ts.net", "NS", "NOERROR", ("nameserver.tailscale.svc.cluster.local.",)),
    Case("v6.tail1234.ts.net", "ANY", "NOERROR", ("2001:db8::6",)),
    Case(DB, "ANY", "NOERROR", ("100.64.0.1",)),
    Case("v4.tail1234.ts.net", "AAAA", "NOERROR"),
    Case("v6.tail1234.ts.net", "A", "NOERROR"),
    Case("none.tail1234.ts.net", "A", "NOERROR"),
    Case("tail1234.ts.net", "A", "NOERROR"),
    Case("b.deep.ts.net", "AAAA", "NOERROR"),
    Case("ts.net", "A", "NOERROR"),
    Case("ts.net", "TYPE1000", "NOERROR"),
    *(Case(DB, qtype, "NOERROR") for qtype in ("TYPE1000", "HTTPS", "SVCB", "MX", "TXT", "SRV", "CNAME", "SOA", "NS")),
    Case("no.tail1234.ts.net", "A", "NXDOMAIN"),
    Case("x.db.tail1234.ts.net", "AAAA", "NXDOMAIN"),
    Case("no.ts.net", "HTTPS", "NXDOMAIN"),
]


@pytest.mark.parametrize("case", ANSWERS, ids=str)
async def test_a_name_in_the_zone_is_answered(ask: Ask, case: Case) -> None:
    response = await ask(make_query(case.name, case.qtype))
    assert dns.rcode.to_text(response.rcode()) == case.rcode
    assert tuple(texts(response)) == case.answers
    assert response.flags & dns.flags.AA
    assert not response.flags & (dns.flags.RA | dns.flags.AD | dns.flags.TC)


@pytest.mark.parametrize("case", [case for case in ANSWERS if not case.answers], ids=str)
async def test_a_negative_answer_carries_one_soa(ask: Ask, case: Case) -> None:
    (soa,) = (await ask(make_query(case.name, case.qtype))).authority
    assert (soa.rdtype, soa.name.to_text(), len(soa)) == (dns.rdatatype.SOA, "ts.net.", 1)
    assert soa.ttl == 5
    assert soa[0].to_text() == "nameserver.tailscale.svc.cluster.local. hostmaster.ts.net. 7 3600 600 86400 5"


@pytest.mark.parametrize("name", [".", "net", "xts.net", "ts.net.example.org"])
@pytest.mark.parametrize("qtype", ["A", "NS", "AXFR"])
async def test_a_name_outside_the_zone_is_refused(ask: Ask, name: str, qtype: str) -> None:
    query = make_query(name, "A")
    query.question[0].rdtype = dns.rdatatype.from_text(qtype)
    response = await ask(query)
    assert response.rcode() == dns.rcode.REFUSED
    assert not response.flags & dns.flags.AA
    assert response.authority == []


@pytest.mark.parametrize("rdclass", ["CH", "HS", "ANY", "NONE"])
async def test_another_class_is_refused(ask: Ask, rdclass: str) -> None:
    response = await ask(make_query(DB, rdclass=rdclass))
    assert response.rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize("qtype", ["AXFR", "IXFR"])
async def test_a_zone_transfer_is_refused(ask: Ask, qtype: str) -> None:
    query = make_query("ts.net", "SOA")
    query.question[0].rdtype = dns.rdatatype.from_text(qtype)
    query.authority = [dns.rrset.from_text("ts.net.", 0, "IN", "SOA", "a. b. 1 2 3 4 5")] if qtype == "IXFR" else []
    assert (await ask(query)).rcode() == dns.rcode.REFUSED


async def test_soa_without_recursion_and_edns(ask: Ask) -> None:
    response = await ask(make_query("ts.net", "SOA", flags=0))
    assert texts(response) == ["nameserver.tailscale.svc.cluster.local. hostmaster.ts.net. 7 3600 600 86400 5"]
    assert response.flags == dns.flags.QR | dns.flags.AA
    assert response.edns == -1


class Flags(NamedTuple):
    asked: int
    answered: int


@pytest.mark.parametrize(
    "case",
    [
        Flags(dns.flags.CD, dns.flags.CD),
        Flags(dns.flags.AD, 0),
        Flags(0x40, 0),
        Flags(dns.flags.RD, dns.flags.RD),
        Flags(dns.flags.RA | dns.flags.AA | dns.flags.TC, 0),
    ],
    ids=str,
)
async def test_rd_and_cd_are_copied_and_no_other_flag(ask: Ask, case: Flags) -> None:
    for name in (DB, "no.ts.net"):
        response = await ask(make_query(name, flags=case.asked))
        assert response.flags & ~0xF == dns.flags.QR | dns.flags.AA | case.answered


@pytest.mark.parametrize("opcode", [1, 2, 3, 4, 5, 6, 15])
async def test_another_opcode_is_not_implemented(server: Running, opcode: int) -> None:
    for size in (12, None):
        query = bytearray(make_query("ts.net", "SOA").to_wire()[:size])
        query[2] = opcode << 3
        response = parsed(answer(bytes(query), server.serving.zone))
        assert (response.rcode(), response.opcode()) == (dns.rcode.NOTIMP, opcode)
        assert [len(section) for section in response.sections] == [0, 0, 0, 0]


async def test_an_update_is_not_implemented(ask: Ask) -> None:
    update = dns.update.UpdateMessage("ts.net")
    update.add("x", 300, "A", "192.0.2.1")
    assert (await ask(update)).rcode() == dns.rcode.NOTIMP


@pytest.mark.parametrize("case", ANSWERS, ids=str)
async def test_edns_is_answered_where_it_is_asked(ask: Ask, case: Case) -> None:
    response = await ask(make_query(case.name, case.qtype, use_edns=0, payload=1232))
    assert (response.edns, response.ednsflags, response.options) == (0, 0, ())
    assert tuple(texts(response)) == case.answers
    assert (await ask(make_query(case.name, case.qtype))).edns == -1


OPTIONS = [dns.edns.GenericOption(dns.edns.OptionType(code), b"12345678") for code in (3, 8, 9, 10, 11, 100)]


async def test_options_are_not_echoed(ask: Ask) -> None:
    response = await ask(make_query(DB, use_edns=0, options=OPTIONS))
    assert (texts(response), response.edns, response.options) == (["100.64.0.1"], 0, ())


@pytest.mark.parametrize("options", [[], OPTIONS], ids=["plain", "options"])
async def test_another_version_of_edns_is_badvers(ask: Ask, options: list[dns.edns.Option]) -> None:
    response = await ask(make_query(DB, use_edns=100, options=options, ednsflags=dns.flags.DO))
    assert (response.rcode(), response.edns, response.options) == (dns.rcode.BADVERS, 0, ())
    assert response.answer == response.authority == []
    assert not response.flags & dns.flags.AA


async def test_do_is_copied_and_unknown_flags_are_cleared(ask: Ask) -> None:
    assert (await ask(make_query(DB, use_edns=0, ednsflags=dns.flags.DO | 0x80))).ednsflags == dns.flags.DO
    assert (await ask(make_query(DB, use_edns=0, ednsflags=0x80))).ednsflags == 0
    response = await ask(make_query(DB, want_dnssec=True))
    assert (response.ednsflags, len(response.answer)) == (dns.flags.DO, 1)


class Size(NamedTuple):
    payload: int | None
    truncated: bool


@pytest.mark.parametrize(
    "case",
    [Size(None, True), Size(100, True), Size(512, True), Size(600, True), Size(1232, False), Size(4096, False)],
    ids=str,
)
async def test_what_is_too_large_for_udp_is_truncated(server: Running, case: Size) -> None:
    query = make_query("many.tail1234.ts.net")
    if case.payload is not None:
        query.use_edns(0, payload=case.payload)
    response = await dns.asyncquery.udp(query, server.host, port=server.port, timeout=3)
    assert bool(response.flags & dns.flags.TC) == case.truncated
    assert texts(response) == ([] if case.truncated else MANY)
    assert response.edns == (-1 if case.payload is None else 0)


async def test_by_tcp_a_large_answer_is_whole(server: Running) -> None:
    response, used_tcp = await dns.asyncquery.udp_with_fallback(
        make_query("many.tail1234.ts.net"), server.host, port=server.port, timeout=3
    )
    assert used_tcp
    assert texts(response) == MANY
