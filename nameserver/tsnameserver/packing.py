"""Packs records into their wire form (RFC 1035, 3.2.1). This is done once, when a zone is compiled."""

import struct
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from socket import AF_INET, AF_INET6, inet_pton

from tsnameserver.message import AAAA, HEADER_SIZE, IN, NOERROR, NS, NXDOMAIN, SOA, A
from tsnameserver.names import fold, wire_name
from tsnameserver.shards import Addresses
from tsnameserver.zone import Apex, ZoneSettings, section

MAX_ADDRESSES = 2000
"""The greatest number of addresses of a name in each address family: so many fit into a message by TCP."""
_REFRESH, _RETRY, _EXPIRE = 3600, 600, 86400
"""The times in the SOA record for secondaries, in seconds. There are no secondaries."""
_IPV4_MAPPED = IPv6Address("::ffff:0:0").packed[:12]
_OWNER = 0xC000 | HEADER_SIZE
"""A pointer to the name in the question (RFC 1035, 4.1.4)."""


def packed_apex(origin: str, settings: ZoneSettings, serial: int) -> Apex:
    """Return the compiled records of the zone *origin* itself; raises InvalidNameError."""
    owner = wire_name(origin)
    mname = wire_name(settings.ns_name)
    rname = wire_name(f"hostmaster.{fold(origin)}")
    numbers = struct.pack("!5I", serial & 0xFFFFFFFF, _REFRESH, _RETRY, _EXPIRE, settings.ttl)
    soa = record(SOA, settings.ttl, mname + rname + numbers)
    ns = record(NS, settings.ttl, mname)
    authority = owner + soa[2:]  # works for any question, because the owner is written out instead of a pointer
    return Apex(
        owner,
        soa=section(NOERROR, soa, answers=1),
        ns=section(NOERROR, ns, answers=1),
        nodata=section(NOERROR, authority, authority=1),
        nxdomain=section(NXDOMAIN, authority, authority=1),
    )


def packed_addresses(name: str, addresses: Addresses, ttl: int, problems: list[str]) -> tuple[bytes, bytes]:
    """Return the packed A and AAAA records of *name*; add messages about addresses left out to *problems*."""
    a = _valid(name, addresses[0], _ip4, problems)
    aaaa = _valid(name, addresses[1], _ip6, problems)
    return _rrset(A, ttl, a), _rrset(AAAA, ttl, aaaa)


def record(rtype: int, ttl: int, rdata: bytes) -> bytes:
    """Return one packed record. Its owner is a pointer to the name in the question."""
    return struct.pack("!HHHIH", _OWNER, rtype, IN, ttl, len(rdata)) + rdata


def _rrset(rtype: int, ttl: int, addresses: list[bytes]) -> bytes:
    return b"".join([record(rtype, ttl, address) for address in addresses])


def _valid(name: str, texts: Iterable[str], parse: Callable[[str], bytes], problems: list[str]) -> list[bytes]:
    """Return the packed addresses without repetitions, at most MAX_ADDRESSES of them.

    Add to *problems* a message about each address that *parse* refuses, and one if there are too many addresses.
    """
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
        return IPv4Address(text).packed  # slower, but its error says what is wrong


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
