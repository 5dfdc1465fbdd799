"""Records compiled into a Zone: each record packed once, so that answering is copying."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

import dnslib

from tsnameserver.errors import InvalidNameError
from tsnameserver.message import AAAA, HEADER_SIZE, IN, NOERROR, NS, NXDOMAIN, SOA, A
from tsnameserver.names import fold, wire_name
from tsnameserver.records import Records
from tsnameserver.zone import Apex, CompiledName, Node, Section, Zone, ZoneSettings, section

MAX_ADDRESSES = 2000
"""Addresses of one name and family: what fits in a message by TCP."""
_REFRESH, _RETRY, _EXPIRE = 3600, 600, 86400
"""Seconds; for secondaries, of which there are none."""
_QUESTION = dnslib.DNSLabel([b"\0question"])
"""Stands for the name in the question, which the owner of every answer points to."""


def empty_zone(settings: ZoneSettings) -> Zone:
    """Return the zone to serve until records arrive: its names are SERVFAIL."""
    apexes, problems = _apexes(settings, (), 0)
    return Zone({}, apexes, loaded=False, problems=tuple(problems))


def build_zone(records: Records, settings: ZoneSettings, old: Zone | None = None) -> Zone:
    """Compile *records*; what *old*, built with the same settings, has compiled of unchanged names is reused."""
    apexes, problems = _apexes(settings, records.zones, records.serial or 0)
    zone = Zone({}, apexes, loaded=True)
    reusable = old.compiled if old is not None and old.apexes.keys() == apexes.keys() else {}
    nodes = {origin: Node(None, None, None, origin) for origin in apexes}
    compiled = {}
    for name, (ip4, ip6) in _addresses_by_name(records).items():
        entry = reusable.get(name)
        if entry is None or entry.ip4 != ip4 or entry.ip6 != ip6:
            entry = _compile(name, ip4, ip6, zone, settings.ttl)
        compiled[name] = entry
        problems.extend(entry.problems)
        if entry.node is not None:
            nodes[entry.wire] = entry.node
    _add_empty_non_terminals(nodes, zone)
    return replace(zone, nodes=nodes, compiled=compiled, problems=tuple(problems))


def _addresses_by_name(records: Records) -> Mapping[str, tuple[list[str], list[str]]]:
    """Return the IPv4 and IPv6 texts of each name; spellings that differ in case or the final dot are one name."""
    addresses: dict[str, tuple[list[str], list[str]]] = {}
    for family, names in enumerate((records.ip4, records.ip6)):
        for name, texts in names.items():
            addresses.setdefault(fold(name), ([], []))[family].extend(texts)
    return addresses


def _compile(name: str, ip4: list[str], ip6: list[str], zone: Zone, ttl: int) -> CompiledName:
    try:
        wire = wire_name(name)
    except InvalidNameError as error:
        return CompiledName(ip4, ip6, b"", None, (f"name {name!r} is left out: {error}",))
    apex = zone.apex_of(wire)
    if apex is None:
        return CompiledName(ip4, ip6, wire, None, (f"name {name!r} is left out: it is in no zone",))
    problems: list[str] = []
    a = [dnslib.A(address) for address in _valid(name, ip4, _ip4, problems)]
    aaaa = [dnslib.AAAA(address) for address in _valid(name, ip6, _ip6, problems)]
    node = Node(_rrset(A, a, ttl), _rrset(AAAA, aaaa, ttl), None, apex.origin)
    return CompiledName(ip4, ip6, wire, node, tuple(problems))


def _valid(
    name: str, texts: Iterable[str], parse: Callable[[str], bytes], problems: list[str]
) -> list[tuple[int, ...]]:
    """Return the addresses that *parse* takes, each once, as dnslib wants them; says of the others in *problems*."""
    addresses = []
    for text in dict.fromkeys(texts):
        try:
            addresses.append(tuple(parse(text)))
        except AddressValueError as error:
            problems.append(f"address {text!r} of {name!r} is left out: {error}")
    if len(addresses) > MAX_ADDRESSES:
        problems.append(f"name {name!r} has {len(addresses)} addresses: only the first {MAX_ADDRESSES} are served")
    return list(dict.fromkeys(addresses))[:MAX_ADDRESSES]


def _ip4(text: str) -> bytes:
    return IPv4Address(text).packed


def _ip6(text: str) -> bytes:
    address = IPv6Address(text)
    if address.ipv4_mapped is not None:
        raise AddressValueError("it is an IPv4-mapped address")
    if address.scope_id is not None:
        raise AddressValueError("it is an address of one link only")
    return address.packed


def _apexes(settings: ZoneSettings, more_origins: Iterable[str], serial: int) -> tuple[dict[bytes, Apex], list[str]]:
    """Return the apex of each zone by origin, and what is wrong with the rest."""
    apexes = {}
    problems = []
    for origin in (*settings.origins, *more_origins):
        try:
            apex = _apex(origin, settings, serial)
        except InvalidNameError as error:
            problems.append(f"zone {origin!r} is left out: {error}")
        else:
            apexes[apex.origin] = apex
    return apexes, problems


def _apex(origin: str, settings: ZoneSettings, serial: int) -> Apex:
    owner = wire_name(origin)
    mname = wire_name(settings.ns_name)
    rname = wire_name(f"hostmaster.{fold(origin)}")
    numbers = struct.pack("!5I", serial & 0xFFFFFFFF, _REFRESH, _RETRY, _EXPIRE, settings.ttl)
    soa = _packed(SOA, [dnslib.RD(mname + rname + numbers)], settings.ttl)
    ns = _packed(NS, [dnslib.RD(mname)], settings.ttl)
    authority = owner + soa[2:]  # for any question: no pointer to the owner
    return Apex(
        owner,
        soa=section(NOERROR, soa, answers=1),
        ns=section(NOERROR, ns, answers=1),
        nodata=section(NOERROR, authority, authority=1),
        nxdomain=section(NXDOMAIN, authority, authority=1),
    )


def _rrset(rtype: int, rdata: list[Any], ttl: int) -> Section | None:
    return section(NOERROR, _packed(rtype, rdata, ttl), answers=len(rdata)) if rdata else None


def _packed(rtype: int, rdata: list[Any], ttl: int) -> bytes:
    """Return records as they follow the question, each owner a pointer to its name."""
    buffer = dnslib.DNSBuffer(bytes(HEADER_SIZE))
    buffer.offset = HEADER_SIZE
    buffer.names[_QUESTION.label] = HEADER_SIZE
    for each in rdata:
        dnslib.RR(_QUESTION, rtype, IN, ttl, each).pack(buffer)
    return bytes(buffer.data[HEADER_SIZE:])


def _add_empty_non_terminals(nodes: dict[bytes, Node], zone: Zone) -> None:
    """Make every name between a known one and its apex exist (RFC 4592, 2.2.2)."""
    for name in list(nodes):
        parent = name[name[0] + 1 :]
        while parent not in nodes:
            apex = zone.apex_of(parent)
            if apex is None:
                break
            nodes[parent] = Node(None, None, None, apex.origin)
            parent = parent[parent[0] + 1 :]
