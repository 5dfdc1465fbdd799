"""EDNS (RFC 6891): versions, flags, options, sizes and malformed OPT records."""

import struct
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from tests.nameserver.conformance.conftest import Ask, Send
from tests.nameserver.conformance.packets import GOOD, OPT, QUESTION, label, message, rcode
from tests.nameserver.conformance.process import WHO, Server
from tests.nameserver.conformance.zone import ADDRESSES, DB, EXACT, LARGE, NEGATIVE, POSITIVE, SOA, Case
from tests.nameserver.samples import MANY, make_query, parsed, texts, wire

DO = dns.flags.DO
MBZ = 0x80


def option(code: int, data: bytes = b"") -> dns.edns.Option:
    return dns.edns.GenericOption(dns.edns.OptionType(code), data)


UNKNOWN = option(100)
COOKIE, NSID, EXPIRE, KEEPALIVE = option(10, b"12345678"), option(3), option(9), option(11)
SUBNET = option(8, bytes.fromhex("0001 18 00 c00002"))
ODD = [option(each.otype, b"whatever") for each in (COOKIE, SUBNET, EXPIRE, KEEPALIVE)]


@pytest.mark.parametrize("way", [{}, {"use_edns": 0}, {"want_dnssec": True}], ids=["plain", "EDNS", "DO"])
@pytest.mark.parametrize("case", POSITIVE + NEGATIVE, ids=str)
def test_08_09_14_an_answer_has_an_opt_record_and_the_do_flag_exactly_if_the_query_has_them(
    ask: Ask, case: Case, way: Any
) -> None:
    query = make_query(case.name, case.qtype, **way)
    response = ask(query)
    assert (dns.rcode.to_text(response.rcode()), tuple(texts(response))) == (case.rcode, case.answers)
    assert [rrset.rdtype for rrset in response.authority] == ([] if case.answers else [dns.rdatatype.SOA])
    assert (response.edns, response.ednsflags, response.options) == (query.edns, query.ednsflags, ())
    assert response.payload == (1232 if way else 0)


@pytest.mark.parametrize(
    ("version", "options", "flags"),
    [
        *((version, [], 0) for version in (1, 100, 255)),
        *((100, options, flags) for options in ([], [UNKNOWN]) for flags in (0, DO, MBZ, MBZ | DO)),
    ],
)
def test_10_13_a_query_with_an_edns_version_above_0_gets_badvers(
    ask: Ask, version: int, options: list[dns.edns.Option], flags: int
) -> None:
    for name in (DB, "no.ts.net"):
        response = ask(make_query(name, use_edns=version, options=options, ednsflags=flags))
        assert (response.rcode(), response.edns, response.options) == (dns.rcode.BADVERS, 0, ())
        assert [len(section) for section in response.sections] == [1, 0, 0, 0]
        assert not response.flags & dns.flags.AA
        assert response.ednsflags & 0xFFFF == flags & DO  # above them is the extended rcode


@pytest.mark.parametrize("junk", [b"\xff", b"\0\x03\0", b"\0\x0a\0\x09short", b"\0\x03\0\0\xff"], ids=bytes.hex)
@pytest.mark.parametrize("version", [1, 255])
def test_13_a_query_with_an_edns_version_above_0_gets_badvers_whatever_its_options(
    send: Send, version: int, junk: bytes
) -> None:
    opt = OPT[:6] + bytes([version]) + OPT[7:-2] + struct.pack("!H", len(junk)) + junk
    response = parsed(send(message(QUESTION, opt, counts=(1, 0, 0, 1))))
    assert (response.rcode(), response.edns, response.options) == (dns.rcode.BADVERS, 0, ())
    assert [len(section) for section in response.sections] == [1, 0, 0, 0]


def test_13_an_nsid_option_is_answered_in_every_edns_version(ask: Ask) -> None:
    response = ask(make_query(DB, use_edns=1, options=[NSID]))
    assert (response.rcode(), [option.to_text() for option in response.options]) == (dns.rcode.BADVERS, [f"NSID {WHO}"])


@pytest.mark.parametrize("unknown", [{"options": [UNKNOWN]}, {"ednsflags": MBZ}], ids=["an option", "a flag"])
def test_11_12_an_unknown_option_is_ignored_and_an_unknown_flag_is_cleared(ask: Ask, unknown: Any) -> None:
    response = ask(make_query(DB, use_edns=0, **unknown))
    assert (texts(response), response.edns, response.options, response.ednsflags) == (["100.64.0.1"], 0, (), 0)


MANY_NAME = "many.tail1234.ts.net"  # 40 addresses
SIZES: list[tuple[str, int | None, int, list[str] | None]] = [
    (MANY_NAME, None, 512, None),
    *((MANY_NAME, payload, 512, None) for payload in (0, 100, 511, 512)),
    (MANY_NAME, 600, 600, None),
    *((MANY_NAME, payload, 1232, MANY) for payload in (1232, 4096, 65535)),
    (EXACT, None, 512, ADDRESSES[:29]),
    (EXACT, 512, 512, None),
    (EXACT, 522, 522, None),
    (EXACT, 523, 523, ADDRESSES[:29]),
    *((LARGE, payload, 1232, None) for payload in (1232, 4096, 65535)),
    ("v4.tail1234.ts.net", 0, 512, ["100.64.0.4", "100.64.0.3"]),
]
"""The rows of the test of sizes.

A row has the name asked for; the response size in the client's OPT record, or None without EDNS; the largest permitted
response; and the expected addresses, or None if the answer has to be truncated.
"""


@pytest.mark.parametrize(("name", "payload", "limit", "answers"), SIZES, ids=lambda value: str(value)[:20])
def test_15_a_response_is_truncated_if_it_is_larger_than_the_client_accepts(
    server: Server, name: str, payload: int | None, limit: int, answers: list[str] | None
) -> None:
    data = server.udp(wire(name) if payload is None else wire(name, use_edns=0, payload=payload))
    response = parsed(data)
    assert len(data) <= limit
    assert bool(response.flags & dns.flags.TC) == (answers is None)
    assert texts(response) == (answers or [])
    assert response.edns == (-1 if payload is None else 0)


def test_15_a_client_size_below_512_counts_as_512_on_the_general_path_too(server: Server) -> None:
    response = parsed(server.udp(wire("ts.net", "SOA", use_edns=0, payload=0)))
    assert (texts(response), response.flags & dns.flags.TC) == ([SOA], 0)


def test_16_a_query_with_two_opt_records_gets_formerr(send: Send) -> None:
    response = send(message(QUESTION, OPT, OPT, counts=(1, 0, 0, 2)))
    assert (rcode(response), parsed(response).edns) == ("FORMERR", 0)


BAD_OPTS = {
    "owner": label(b"x") + OPT,
    "pointer as owner": b"\xc0\x0c" + OPT[1:],
    "length past the end": OPT[:-2] + b"\0\4",
    "data past the end": OPT[:-2] + b"\0\4" + b"abc",
    "option past the record": OPT[:-2] + b"\0\5" + b"\0\x0a\0\2a",
    "half an option": OPT[:-2] + b"\0\3" + b"\0\x0a\0",
    "second option past the record": OPT[:-2] + b"\0\x0a" + b"\0\x0a\0\1a" + b"\0\x0a\0\2a",
    "cut off": OPT[:-1],
    "missing": b"",
}


@pytest.mark.parametrize("opt", BAD_OPTS.values(), ids=BAD_OPTS)
def test_17_a_query_with_a_malformed_opt_record_gets_formerr(send: Send, opt: bytes) -> None:
    response = send(message(QUESTION, opt, counts=(1, 0, 0, 1)))
    assert rcode(response) == "FORMERR"
    assert parsed(response).edns == (0 if opt[:9] == OPT[:9] and len(opt) >= len(OPT) else -1)


def test_17_a_query_with_an_opt_record_in_the_answer_section_gets_formerr(send: Send) -> None:
    assert rcode(send(message(QUESTION, OPT, counts=(1, 1, 0, 0)))) == "FORMERR"


@pytest.mark.parametrize("name", [DB, "no.ts.net", "tail1234.ts.net"])
def test_18_an_answer_does_not_echo_known_options(ask: Ask, name: str) -> None:
    plain = ask(make_query(name))
    for options in ([COOKIE], [SUBNET], [EXPIRE], [KEEPALIVE], [COOKIE, SUBNET, EXPIRE, KEEPALIVE], ODD):
        response = ask(make_query(name, use_edns=0, options=options))
        assert (response.edns, response.options) == (0, ())
        assert (response.answer, response.authority) == (plain.answer, plain.authority)


def test_18_a_query_with_an_option_of_false_length_gets_an_answer_or_formerr(send: Send) -> None:
    data = struct.pack("!HH", 10, 200) + b"short"
    response = send(message(QUESTION, OPT[:-2] + struct.pack("!H", len(data)), data, counts=(1, 0, 0, 1)))
    assert rcode(response) in {"NOERROR", "FORMERR"}
    assert send(GOOD)


@pytest.mark.parametrize("name", [DB, "no.ts.net", "example.org"])
@pytest.mark.parametrize("options", [[NSID], [COOKIE, NSID, SUBNET]], ids=["alone", "among others"])
def test_18_the_server_answers_a_request_for_its_nsid(ask: Ask, name: str, options: list[dns.edns.Option]) -> None:
    plain, response = ask(make_query(name)), ask(make_query(name, use_edns=0, options=options))
    assert [(option.otype, option.to_text()) for option in response.options] == [(dns.edns.NSID, f"NSID {WHO}")]
    assert (response.rcode(), response.answer, response.authority) == (plain.rcode(), plain.answer, plain.authority)
