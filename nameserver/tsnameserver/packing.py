"""Records packed as they travel: once, with dnslib or after the pattern of what it packs."""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any

import dnslib

from tsnameserver.message import AAAA, HEADER_SIZE, IN, NOERROR, NS, NXDOMAIN, SOA, A
from tsnameserver.names import fold, wire_name
from tsnameserver.shards import Addresses
from tsnameserver.zone import Apex, Section, ZoneSettings, section

MAX_ADDRESSES = 2000
"""Addresses of one name and family: what fits in a message by TCP."""
_REFRESH, _RETRY, _EXPIRE = 3600, 600, 86400
"""Seconds; for secondaries, of which there are none."""
_IPV4_MAPPED = IPv6Address("::ffff:0:0").packed[:12]
_QUESTION = dnslib.DNSLabel([b"\0question"])
"""Stands for the name in the question, which the owner of every answer points to."""


def packed_apex(origin: str, settings: ZoneSettings, serial: int) -> Apex:
    """Return what the zone *origin* has of its own; raises InvalidNameError."""
    owner = wire_name(origin)
    mname = wire_name(settings.ns_name)
    rname = wire_name(f"hostmaster.{fold(origin)}")
    numbers = struct.pack("!5I", serial & 0xFFFFFFFF, _REFRESH, _RETRY, _EXPIRE, settings.ttl)
    soa = _packed(SOA, dnslib.RD(mname + rname + numbers), settings.ttl)
    ns = _packed(NS, dnslib.RD(mname), settings.ttl)
    authority = owner + soa[2:]  # for any question: no pointer to the owner
    return Apex(
        owner,
        soa=section(NOERROR, soa, answers=1),
        ns=section(NOERROR, ns, answers=1),
        nodata=section(NOERROR, authority, authority=1),
        nxdomain=section(NXDOMAIN, authority, authority=1),
    )


def packed_addresses(
    name: str, addresses: Addresses, ttl: int, problems: list[str]
) -> tuple[Section | None, Section | None]:
    """Return the A and AAAA records of *name*; says in *problems* what is left out of them."""
    a = _valid(name, addresses[0], _ip4, problems)
    aaaa = _valid(name, addresses[1], _ip6, problems)
    return _rrset(a_start(ttl), a), _rrset(aaaa_start(ttl), aaaa)


@cache
def a_start(ttl: int) -> bytes:
    """Return what every A record begins with; its address follows."""
    return _packed(A, dnslib.A((0, 0, 0, 0)), ttl)[:-4]


@cache
def aaaa_start(ttl: int) -> bytes:
    """Return what every AAAA record begins with; its address follows."""
    return _packed(AAAA, dnslib.AAAA((0,) * 16), ttl)[:-16]


def _rrset(start: bytes, addresses: list[bytes]) -> Section | None:
    if not addresses:
        return None
    return section(NOERROR, start + start.join(addresses), answers=len(addresses))


def _valid(name: str, texts: Iterable[str], parse: Callable[[str], bytes], problems: list[str]) -> list[bytes]:
    """Return the addresses that *parse* takes, each once."""
    addresses: dict[bytes, None] = {}
    for text in dict.fromkeys(texts):
        try:
            addresses[parse(text)] = None
        except AddressValueError as error:
            problems.append(f"address {text!r} of {name!r} is left out: {error}")
    if len(addresses) > MAX_ADDRESSES:
        problems.append(f"name {name!r} has {len(addresses)} addresses: only the first {MAX_ADDRESSES} are served")
    return list(addresses)[:MAX_ADDRESSES]


def _ip4(text: str) -> bytes:
    try:
        return inet_pton(AF_INET, text)
    except (OSError, ValueError):
        return IPv4Address(text).packed  # slower, but it says what is wrong


def _ip6(text: str) -> bytes:
    try:
        packed = inet_pton(AF_INET6, text)
    except (OSError, ValueError):
        address = IPv6Address(text)
        if address.scope_id is not None:
            raise AddressValueError("it is an address of one link only") from None
        packed = address.packed
    if packed.startswith(_IPV4_MAPPED):
        raise AddressValueError("it is an IPv4-mapped address")
    return packed


def _packed(rtype: int, rdata: Any, ttl: int) -> bytes:
    """Return one record as it follows the question: its owner a pointer to the question's name."""
    buffer = dnslib.DNSBuffer(bytes(HEADER_SIZE))
    buffer.offset = HEADER_SIZE
    buffer.names[_QUESTION.label] = HEADER_SIZE
    dnslib.RR(_QUESTION, rtype, IN, ttl, rdata).pack(buffer)
    return bytes(buffer.data[HEADER_SIZE:])
