"""Negative answers (RFC 2308), and queries that get a minimal answer (RFC 8482) or a refusal."""

import struct

import dns.flags
import dns.rcode
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.rrset
import pytest

from tests.nameserver.conformance.conftest import Ask
from tests.nameserver.conformance.packets import GOOD, framed, rcode
from tests.nameserver.conformance.process import Server, read_message
from tests.nameserver.conformance.zone import DB, NEGATIVE, POSITIVE, SOA, Case, check_nodata
from tests.nameserver.samples import make_query, parsed, texts


@pytest.mark.parametrize("case", NEGATIVE, ids=str)
def test_26_a_negative_answer_carries_one_soa(ask: Ask, case: Case) -> None:
    response = ask(make_query(case.name, case.qtype))
    assert (dns.rcode.to_text(response.rcode()), response.answer, response.additional) == (case.rcode, [], [])
    (rrset,) = response.authority
    (soa,) = rrset
    assert (rrset.name.to_text(), soa.to_text()) == ("ts.net.", SOA)
    assert isinstance(soa, dns.rdtypes.ANY.SOA.SOA)
    assert rrset.ttl == min(5, soa.minimum) == 5


TYPES = ["HTTPS", "SVCB", "MX", "TXT", "SRV", "CNAME", "PTR", "DS", "DNSKEY", "SOA", "NS", "TYPE1000"]
OTHER_FAMILY = [("v4.tail1234.ts.net", "AAAA"), ("v6.tail1234.ts.net", "A")]


@pytest.mark.parametrize(("name", "qtype"), [*((DB, qtype) for qtype in TYPES), ("ts.net", "TYPE1000"), *OTHER_FAMILY])
def test_02_27_28_a_query_for_a_type_that_the_name_has_no_records_of_gets_nodata(
    ask: Ask, name: str, qtype: str
) -> None:
    check_nodata(ask(make_query(name, qtype)))


@pytest.mark.parametrize(
    "case", [each for each in POSITIVE if each[:2] not in {(DB, "AAAA"), ("ts.net", "NS")}], ids=str
)
def test_29_a_query_of_type_any_gets_only_one_rrset(ask: Ask, case: Case) -> None:
    response = ask(make_query(case.name, "ANY"))
    assert (response.rcode(), tuple(texts(response)), response.authority) == (dns.rcode.NOERROR, case.answers, [])


def test_29_a_query_of_type_any_for_a_name_without_records_gets_nodata(ask: Ask) -> None:
    check_nodata(ask(make_query("none.tail1234.ts.net", "ANY")))


@pytest.mark.parametrize("rdclass", ["CH", "HS", "ANY", "NONE"])
def test_30_a_query_of_a_class_other_than_in_gets_the_rcode_refused(ask: Ask, rdclass: str) -> None:
    for name in (DB, "ts.net", "no.ts.net", "example.org"):
        response = ask(make_query(name, rdclass=rdclass))
        assert response.rcode() == dns.rcode.REFUSED
        assert not response.flags & dns.flags.AA


def transfer(qtype: str, name: str) -> bytes:
    """Return a request for a zone transfer, as a secondary server sends it.

    dnspython's own function would wait for an answer of many messages.
    """
    query = make_query(name, "SOA")
    if qtype == "IXFR":
        query.authority = [dns.rrset.from_text(f"{name}.", 0, "IN", "SOA", "a. b. 1 2 3 4 5")]
    code = struct.pack("!H", dns.rdatatype.from_text(qtype))
    end = 12 + len(name) + 2
    packet = query.to_wire()
    return packet[:end] + code + packet[end + 2 :]


@pytest.mark.parametrize("qtype", ["AXFR", "IXFR"])
def test_31_a_request_for_a_zone_transfer_gets_the_rcode_refused_and_its_connection_stays_usable(
    server: Server, qtype: str
) -> None:
    with server.tcp_socket() as (client, stream):
        for name in ("ts.net", DB, "example.org"):
            assert rcode(server.udp(transfer(qtype, name))) == "REFUSED"
            client.sendall(framed(transfer(qtype, name)))
            assert rcode(read_message(stream)) == "REFUSED"
            client.sendall(framed(GOOD))
            assert texts(parsed(read_message(stream))) == ["100.64.0.1"]
