"""The PROXY headers that are accepted, and the addresses of callers in them."""

from ipaddress import ip_address
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import MalformedProxyHeader
from tsoperator.apiproxy.proxyprotocol import ProxyHeader, parse

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
EXTENSION = b"\x04\0\1x"  # PP2_TYPE_NOOP


def proxied(source: str, port: int, extensions: bytes = b"") -> bytes:
    """Return the PROXY header of a connection from *source*, as tailscaled writes it."""
    address = ip_address(source)
    body = address.packed * 2 + port.to_bytes(2) + (443).to_bytes(2) + extensions
    return SIGNATURE + (b"\x21\x11" if address.version == 4 else b"\x21\x21") + len(body).to_bytes(2) + body


IPV4 = proxied("100.64.0.7", 41000)
IPV6 = proxied("2001:db8::7", 1)


class Case(NamedTuple):
    """A PROXY header, and its parsed form or the reason for its refusal."""

    raw: bytes
    wanted: ProxyHeader | str


CASES = {
    "IPv4": Case(IPV4, ProxyHeader("100.64.0.7:41000", 28)),
    "IPv6": Case(IPV6, ProxyHeader("[2001:db8::7]:1", 52)),
    "an extension": Case(proxied("100.64.0.7", 65535, EXTENSION), ProxyHeader("100.64.0.7:65535", 32)),
    "the longest": Case(proxied("2001:db8::7", 80, EXTENSION * 121), ProxyHeader("[2001:db8::7]:80", 536)),
    "too long": Case(proxied("2001:db8::7", 80, EXTENSION * 121 + b"x"), "length"),
    "too short for its addresses": Case(SIGNATURE + b"\x21\x11\0\x0b" + bytes(11), "length"),
    "IPv6 with the addresses of IPv4": Case(SIGNATURE + b"\x21\x21\0\x0c" + bytes(12), "length"),
    "version 1": Case(b"PROXY TCP4 100.64.0.7 100.64.0.1 41000 443\r\n", "signature"),
    "another version": Case(SIGNATURE + b"\x31" + IPV4[13:], "command"),
    "LOCAL, without a caller": Case(SIGNATURE + b"\x20" + IPV4[13:], "command"),
    "UDP": Case(SIGNATURE + b"\x21\x12" + IPV4[14:], "family"),
    "a Unix socket": Case(SIGNATURE + b"\x21\x31\0\xd8" + bytes(216), "family"),
    "no family": Case(SIGNATURE + b"\x21\0\0\0", "family"),
    "HTTP": Case(b"GET / HTTP/1.1\r\n\r\n", "signature"),
    "an empty line, and HTTP": Case(b"\r\nGET / HTTP/1.1\r\n\r\n", "signature"),
}


def parsed(buffer: bytes) -> ProxyHeader | str | None:
    """Return the parsed form of *buffer*, or the reason for its refusal."""
    try:
        return parse(buffer)
    except MalformedProxyHeader as error:
        return error.reason


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_proxy_header_is_read_or_refused_with_a_reason(case: Case) -> None:
    assert parsed(case.raw + b"GET / HTTP/1.1\r\n") == case.wanted


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_beginning_of_a_proxy_header_counts_as_incomplete_or_is_refused_as_the_whole_header_is(case: Case) -> None:
    size = case.wanted.length if isinstance(case.wanted, ProxyHeader) else len(case.raw)
    refused = {case.wanted} - {case.wanted if isinstance(case.wanted, ProxyHeader) else None}
    assert {parsed(case.raw[:end]) for end in range(size)} <= {None, *refused}


def test_a_proxy_header_is_refused_at_its_first_wrong_byte() -> None:
    assert [parsed(raw) for raw in (b"G", SIGNATURE + b"\x20", SIGNATURE + b"\x21\x12")] == [
        "signature",
        "command",
        "family",
    ]


@given(st.binary(max_size=600), st.integers(0, 16))
@example(b"", 16)
def test_random_bytes_are_an_incomplete_proxy_header_a_refused_one_or_a_good_one(random: bytes, kept: int) -> None:
    found = parsed(IPV4[:kept] + random)
    assert found is None or isinstance(found, ProxyHeader | str)
