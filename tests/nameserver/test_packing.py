"""Tests of packing records, against dnslib and the standard library."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

import dnslib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.packing import MAX_ADDRESSES, packed_addresses, packed_apex, record

from tests.nameserver.samples import SETTINGS

OWNER = dnslib.DNSLabel("db.tail1234.ts.net")


def packed_by_dnslib(rdata: dnslib.RD, rtype: int, ttl: int) -> bytes:
    """Return one record as dnslib packs it behind its question."""
    record = dnslib.DNSRecord(q=dnslib.DNSQuestion(OWNER, rtype))
    question_ends = len(record.pack())
    record.add_answer(dnslib.RR(OWNER, rtype, 1, ttl, rdata))
    return bytes(record.pack()[question_ends:])


def parsed_by_dnslib(record: bytes) -> dnslib.RR:
    """Return what dnslib reads of a record that follows the question for the apex."""
    question = dnslib.DNSRecord(q=dnslib.DNSQuestion("ts.net", 1)).pack()
    return dnslib.DNSRecord.parse(question[:7] + b"\1" + question[8:] + record).rr[0]


def packed(ip4: list[str], ip6: list[str]) -> tuple[bytes, bytes, list[str]]:
    """Return the bodies of both families, and what was said."""
    problems: list[str] = []
    a, aaaa = packed_addresses("a.ts.net", (ip4, ip6), 5, problems)
    return a, aaaa, problems


@given(st.ip_addresses(), st.integers(0, 2**31 - 1))
def test_the_record_of_an_address_is_as_dnslib_packs_it(address: IPv4Address | IPv6Address, ttl: int) -> None:
    is_ip4 = address.version == 4
    rtype, rdata = (1, dnslib.A(str(address))) if is_ip4 else (28, dnslib.AAAA(tuple(address.packed)))
    assert record(rtype, ttl, address.packed) == packed_by_dnslib(rdata, rtype, ttl)


def test_an_apex_is_as_dnslib_packs_it() -> None:
    apex = packed_apex("TS.net.", SETTINGS, 2**32 + 7)
    serial_and_times = (7, 3600, 600, 86400, SETTINGS.ttl)
    soa = dnslib.SOA(SETTINGS.ns_name, "hostmaster.ts.net", serial_and_times)
    assert parsed_by_dnslib(apex.soa.body) == dnslib.RR("ts.net", 6, ttl=SETTINGS.ttl, rdata=soa)
    assert parsed_by_dnslib(apex.ns.body) == dnslib.RR("ts.net", 2, ttl=SETTINGS.ttl, rdata=dnslib.NS(SETTINGS.ns_name))
    assert apex.nodata.body == apex.nxdomain.body == apex.origin + apex.soa.body[2:]


def test_records_follow_one_another_in_order() -> None:
    a, _, _ = packed(["192.0.2.2", "192.0.2.1"], [])
    assert a == record(1, 5, bytes([192, 0, 2, 2])) + record(1, 5, bytes([192, 0, 2, 1]))


def test_two_spellings_of_one_address_are_one_record() -> None:
    assert packed([], ["2001:db8::1", "2001:DB8:0::1"]) == packed([], ["2001:db8::1"])


class BadAddress(NamedTuple):
    text: str
    is_ip6: bool = False


@pytest.mark.parametrize(
    "case",
    [
        BadAddress("192.0.2"),
        BadAddress("192.0.2.256"),
        BadAddress("192.0.2.01"),
        BadAddress("192.0.2.1\0"),
        BadAddress("192.0.2.\u0661"),
        BadAddress("2001:db8::9"),
        BadAddress(""),
        BadAddress("192.0.2.9", is_ip6=True),
        BadAddress("::ffff:192.0.2.9", is_ip6=True),
        BadAddress("fe80::1%eth0", is_ip6=True),
        BadAddress("2001:db8:::", is_ip6=True),
    ],
)
def test_a_bad_address_is_left_out_and_said(case: BadAddress) -> None:
    a, aaaa, (problem,) = packed([] if case.is_ip6 else [case.text], [case.text] if case.is_ip6 else [])
    assert (a, aaaa) == (b"", b"")
    assert problem.startswith(f"address {case.text!r} of 'a.ts.net' is left out: ")


ADDRESS_LIKE = (
    st.text(alphabet="0123456789.:abF%\0 ", max_size=20)
    | st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(lambda address: address.exploded)
    | st.ip_addresses(v=4).map(lambda address: f"::ffff:{address}")
)


def by_standard_library(text: str) -> tuple[bytes, bytes]:
    """Return what the standard library makes of *text* in either family."""
    families: list[bytes] = []
    for parse in (IPv4Address, IPv6Address):
        try:
            address = parse(text)
        except AddressValueError:
            families.append(b"")
            continue
        odd = isinstance(address, IPv6Address) and (address.ipv4_mapped or address.scope_id is not None)
        families.append(b"" if odd else address.packed)
    return families[0], families[1]


@given(ADDRESS_LIKE)
def test_addresses_are_read_as_the_standard_library_reads_them(text: str) -> None:
    a, aaaa, _ = packed([text], [text])
    assert (a[-4:], aaaa[-16:]) == by_standard_library(text)


def test_more_addresses_than_a_message_holds_are_cut() -> None:
    many = [f"100.64.{number >> 8}.{number & 255}" for number in range(MAX_ADDRESSES + 5)]
    a, _, (problem,) = packed(many, [])
    assert (len(a), a[-4:]) == (16 * MAX_ADDRESSES, IPv4Address(many[MAX_ADDRESSES - 1]).packed)
    assert f"{MAX_ADDRESSES + 5} addresses" in problem
