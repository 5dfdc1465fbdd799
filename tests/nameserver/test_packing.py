"""Tests of the packing of addresses: each valid address is packed once, and bad ones are reported."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.packing import MAX_ADDRESSES, packed_addresses

BAD_IP4 = ["192.0.2", "192.0.2.256", "192.0.2.01", "192.0.2.1\0", "192.0.2.\u0661", "2001:db8::9", ""]
BAD_IP6 = ["192.0.2.9", "::ffff:192.0.2.9", "fe80::1%eth0", "2001:db8:::"]
ADDRESS_LIKE = (
    st.text(alphabet="0123456789.:abF%\0 ", max_size=20)
    | st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(lambda address: address.exploded)
    | st.ip_addresses(v=4).map(lambda address: f"::ffff:{address}")
)


def packed(ip4: list[str], ip6: list[str]) -> tuple[bytes, bytes, list[str]]:
    """Return the packed addresses of both families, and the reported problems."""
    problems: list[str] = []
    return *packed_addresses("a.ts.net", (ip4, ip6), 5, problems), problems


def test_an_address_that_is_written_in_two_ways_becomes_one_record() -> None:
    assert packed([], ["2001:db8::1", "2001:DB8:0::1"]) == packed([], ["2001:db8::1"])


@pytest.mark.parametrize(
    ("text", "ip4", "ip6"), [*((text, [text], []) for text in BAD_IP4), *((text, [], [text]) for text in BAD_IP6)]
)
def test_a_bad_address_in_the_records_is_left_out_and_reported(text: str, ip4: list[str], ip6: list[str]) -> None:
    a, aaaa, (problem,) = packed(ip4, ip6)
    assert (a, aaaa) == (b"", b"")
    assert problem.startswith(f"address {text!r} of 'a.ts.net' is left out: ")


def by_standard_library(text: str) -> tuple[bytes, bytes]:
    """Return the standard library's reading of *text* in either IP family."""
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
def test_addresses_in_the_records_are_parsed_as_the_standard_library_parses_them(text: str) -> None:
    a, aaaa, _ = packed([text], [text])
    assert (a[-4:], aaaa[-16:]) == by_standard_library(text)


def test_addresses_that_do_not_fit_into_a_dns_message_are_left_out() -> None:
    many = [f"100.64.{number >> 8}.{number & 255}" for number in range(MAX_ADDRESSES + 5)]
    a, _, (problem,) = packed(many, [])
    assert (len(a), a[-4:]) == (16 * MAX_ADDRESSES, IPv4Address(many[MAX_ADDRESSES - 1]).packed)
    assert f"{MAX_ADDRESSES + 5} addresses" in problem
