"""The PROXY header with which tailscaled says who has connected (version 2 of HAProxy's PROXY protocol)."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from tsoperator.apiproxy.errors import MalformedProxyHeader

MOST_BYTES: Final = 536
"""The longest header that we accept: 16 bytes, and 520 bytes of addresses and extensions."""

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_START: Final = _SIGNATURE + b"\x21"
"""The first bytes of a header: the signature, version 2, and the command PROXY."""
_FIXED: Final = 16  # bytes before the addresses
_TCP4: Final = 0x11
_TCP6: Final = 0x21
_ADDRESSES: Final = {_TCP4: 12, _TCP6: 36}
"""The number of bytes of two addresses and two ports, by family and protocol."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """The PROXY header of a connection: *source* is the caller's `ip:port`, *length* the header's number of bytes."""

    source: str
    length: int


def parse(buffer: bytes | bytearray) -> ProxyHeader | None:
    """Return the PROXY header at the beginning of *buffer*; None if it is incomplete.

    We accept only what tailscaled sends: version 2, the command PROXY, and TCP over IPv4 or IPv6. Extensions after the
    addresses are skipped. Raises MalformedProxyHeader as soon as the bytes can't be the beginning of such a header.
    """
    start = bytes(buffer[:_FIXED])
    if not _START.startswith(start[: len(_START)]):
        signed = start.startswith(_SIGNATURE)
        raise MalformedProxyHeader(*(("command", "not version 2 with PROXY") if signed else ("signature", "no header")))
    if len(start) > len(_START) and start[13] not in _ADDRESSES:
        raise MalformedProxyHeader("family", "neither TCP over IPv4 nor over IPv6")
    if len(start) < _FIXED:
        return None
    family, length = start[13], int.from_bytes(start[14:])
    if not _ADDRESSES[family] <= length <= MOST_BYTES - _FIXED:
        raise MalformedProxyHeader("length", f"a length of {length} bytes")
    if len(buffer) < _FIXED + length:
        return None
    addresses = bytes(buffer[_FIXED : _FIXED + _ADDRESSES[family]])
    if family == _TCP4:
        port = int.from_bytes(addresses[8:10])
        return ProxyHeader(f"{IPv4Address(addresses[:4])}:{port}", _FIXED + length)
    port = int.from_bytes(addresses[32:34])
    return ProxyHeader(f"[{IPv6Address(addresses[:16])}]:{port}", _FIXED + length)
