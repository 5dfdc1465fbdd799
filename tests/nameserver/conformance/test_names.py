"""Names: their case, length and unusual bytes, and which names belong to a zone (RFC 1035, RFC 4343)."""

import itertools

import dns.flags
import dns.rcode
import pytest

from tests.nameserver.conformance.conftest import Ask, Send
from tests.nameserver.conformance.packets import A_IN, GOOD, IN_TS_NET, label, message, rcode, with_opt
from tests.nameserver.conformance.process import Server
from tests.nameserver.conformance.zone import LONG_LABEL, LONGEST, OUTSIDE, SHORT, Case, check_nodata
from tests.nameserver.samples import make_query, parsed, texts, wire


def test_19_a_name_is_found_in_any_case_and_the_answer_echoes_that_case(server: Server) -> None:
    spellings = {"".join(letters) for letters in itertools.product(*zip(SHORT.lower(), SHORT.upper(), strict=True))}
    assert len(spellings) == 2**7
    for query in map(wire, spellings):
        response = server.udp(query)
        assert response[12 : len(query)] == query[12:]
        (rrset,) = parsed(response).answer
        assert rrset.to_text() == f"{parsed(query).question[0].name} 5 IN A 100.64.0.7"


@pytest.mark.parametrize("name", ["nO.tS.NeT", "TAIL1234.Ts.net", "V4.tail1234.TS.NET", "eXample.ORG", "Ts.Net"])
def test_19_every_kind_of_answer_echoes_the_question(send: Send, name: str) -> None:
    for query in (wire(name, qtype) for qtype in ("A", "TYPE65", "TYPE97", "ANY")):
        assert send(query)[12 : len(query)] == query[12:]


@pytest.mark.parametrize("name", ["mixed.tail1234.ts.net", "Mixed.TAIL1234.ts.net", "MIXED.tail1234.TS.NET"])
def test_20_a_name_with_upper_case_letters_and_a_final_dot_in_the_records_is_found(ask: Ask, name: str) -> None:
    assert texts(ask(make_query(name))) == ["100.64.0.5"]


def test_21_a_query_with_a_label_of_63_bytes_or_a_name_of_255_bytes_is_answered(ask: Ask) -> None:
    assert len(wire(LONGEST)) == 12 + 255 + 4
    for name, address in ((LONG_LABEL, "100.64.0.8"), (LONGEST, "100.64.0.9")):
        assert texts(ask(make_query(name))) == [address]
        assert ask(make_query(f"x{name[1:]}")).rcode() == dns.rcode.NXDOMAIN


LONG = label(b"a" * 63) + label(b"b" * 63) + label(b"c" * 63)
TOO_LONG = {
    "label of 64": label(b"l" * 64) + IN_TS_NET,
    "label of 191": label(b"l" * 191) + IN_TS_NET,
    "name of 256": LONG + label(b"d" * 55) + IN_TS_NET,
    "name of 256 below one": label(b"x") + LONG + label(b"d" * 53) + IN_TS_NET,
    "name of 400": LONG * 2 + IN_TS_NET,
    "labels of 1": b"\1a" * 124 + IN_TS_NET,
}


@pytest.mark.parametrize("name", TOO_LONG.values(), ids=TOO_LONG)
def test_21_a_query_with_a_label_above_63_bytes_or_a_name_above_255_bytes_gets_formerr(send: Send, name: bytes) -> None:
    assert rcode(send(message(name, A_IN))) == "FORMERR"
    assert rcode(send(with_opt(name, A_IN))) == "FORMERR"


ODD_LABELS = {
    "the name as one label": (label(b"db.tail1234") + IN_TS_NET, "NXDOMAIN"),
    "a dot in a label": (label(b"db.tail1234.ts.net") + IN_TS_NET, "NXDOMAIN"),
    "a zero byte": (label(b"d\0b") + label(b"tail1234") + IN_TS_NET, "NXDOMAIN"),
    "a zero byte at the end": (label(b"db\0") + label(b"tail1234") + IN_TS_NET, "NXDOMAIN"),
    "the origin as one label": (label(b"ts.net") + b"\0", "REFUSED"),
    "the origin's bytes in a label": (label(b"\x02ts\x03net") + b"\0", "REFUSED"),
    "the origin's bytes in the end of a label": (label(b"x\x02ts\x03net") + b"\0", "REFUSED"),
    "the origin's bytes and root in a label": (label(b"x" + IN_TS_NET) + b"\0", "REFUSED"),
    "a known name's bytes in a label": (label(b"x" + GOOD[12:-4]) + b"\0", "REFUSED"),
    "a known name's bytes in a label of the zone": (label(GOOD[12:-4]) + IN_TS_NET, "NXDOMAIN"),
}


@pytest.mark.parametrize(("name", "expected"), ODD_LABELS.values(), ids=ODD_LABELS)
def test_22_dots_zero_bytes_and_whole_names_inside_a_label_are_just_bytes(
    send: Send, name: bytes, expected: str
) -> None:
    for query in (message(name, A_IN), with_opt(name, A_IN)):
        response = send(query)
        assert (rcode(response), response[6:8]) == (expected, bytes(2))


POINTERS = {
    "to itself": b"\xc0\x0c",
    "to itself after a label": label(b"db") + b"\xc0\x0f",
    "to the label before": label(b"db") + b"\xc0\x0c",
    "to the header": b"\xc0\x00",
    "forward": b"\xc0\x12",
    "to the next": b"\xc0\x0e\xc0\x0c",
    "past the end": b"\xc0\xff",
    "far past the end": b"\xff\xff",
    "cut off": label(b"db") + b"\xc0",
    "reserved 01": b"\x41" + b"a" * 65 + b"\0",
    "reserved 10": b"\x80" + b"\0",
    "before the origin": b"\xc0\x0c" + IN_TS_NET,
    "none, but a root before the origin": b"\0" + IN_TS_NET,
}


@pytest.mark.parametrize("name", POINTERS.values(), ids=POINTERS)
def test_23_a_query_with_a_compression_pointer_in_the_question_gets_formerr(send: Send, name: bytes) -> None:
    for end in (b"", A_IN, A_IN + IN_TS_NET + A_IN):
        assert rcode(send(message(name, end))) == "FORMERR"
    assert rcode(send(GOOD)) == "NOERROR"


@pytest.mark.parametrize("name", ["tail1234.ts.net", "deep.ts.net", "b.deep.ts.net", "B.DEEP.ts.net"])
def test_24_an_empty_non_terminal_gets_nodata(ask: Ask, name: str) -> None:
    for qtype in ("A", "AAAA", "TXT", "ANY", "NS"):
        check_nodata(ask(make_query(name, qtype)))


@pytest.mark.parametrize("case", OUTSIDE, ids=str)
@pytest.mark.parametrize("edns", [False, 0], ids=["plain", "edns"])
def test_25_a_query_for_a_name_outside_the_zone_gets_the_rcode_refused(ask: Ask, case: Case, edns: bool | int) -> None:
    for qtype in ("A", "NS", "SOA", "ANY"):
        response = ask(make_query(case.name, qtype, use_edns=edns))
        assert response.rcode() == dns.rcode.REFUSED
        assert not response.flags & dns.flags.AA
        assert [len(section) for section in response.sections] == [1, 0, 0, 0]
