"""The addresses to listen on, and the sockets bound to them: one UDP and one TCP socket to an address."""

import errno
import ipaddress
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from tsnameserver.errors import ListenError

IP_PKTINFO = 26 if sys.platform == "darwin" else 8
"""What the socket module has no name for before Python 3.12."""
_RECEIVE_BUFFER = 4 << 20
"""Bytes asked for, so that a burst outlives a reload; the kernel gives what net.core.rmem_max allows."""
_BACKLOG = 512
_PORT_TRIES = 20


class Endpoint(NamedTuple):
    """An address to listen on; an empty *host* is every address, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Read `ADDR:PORT`, `[ADDR]:PORT` or `:PORT`; raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("is not ADDR:PORT, [ADDR]:PORT or :PORT")
    bare = host.removeprefix("[").removesuffix("]")
    if bare and (":" in bare) != (host == f"[{bare}]"):
        raise ValueError("has an address that is not IPv4, or IPv6 in brackets")
    if bare:
        ipaddress.ip_address(bare)
    elif host:
        raise ValueError("has no address in its brackets")
    return Endpoint(bare, int(port))


@dataclass(frozen=True, slots=True)
class Pair:
    """Sockets bound to one address and port by UDP and TCP."""

    udp: socket.socket
    tcp: socket.socket

    @property
    def endpoint(self) -> Endpoint:
        """Return where the pair is bound."""
        return Endpoint(*self.udp.getsockname()[:2])

    def close(self) -> None:
        """Close both sockets."""
        self.udp.close()
        self.tcp.close()


@dataclass(frozen=True, slots=True)
class Sockets:
    """All that the process listens on."""

    pairs: tuple[Pair, ...]
    health: socket.socket | None

    def close(self) -> None:
        """Close them all."""
        for pair in self.pairs:
            pair.close()
        if self.health is not None:
            self.health.close()

    def __str__(self) -> str:
        served = ", ".join(str(pair.endpoint) for pair in self.pairs)
        if self.health is None:
            return served
        return f"{served}; probes on {Endpoint(*self.health.getsockname()[:2])}"


def bind(endpoints: Iterable[Endpoint], health: Endpoint | None) -> Sockets:
    """Bind a pair to each of *endpoints* (one a family where there is no host), and *health*; raises ListenError."""
    with ExitStack() as opened:
        pairs = []
        for endpoint in endpoints:
            for pair in _bind_families(endpoint):
                opened.callback(pair.close)
                pairs.append(pair)
        listener = None if health is None else _bind_both_families(health)
        opened.pop_all()
    return Sockets(tuple(pairs), listener)


def _bind_families(endpoint: Endpoint) -> Iterator[Pair]:
    if endpoint.host:
        yield _bind_pair(endpoint)
        return
    ip4 = _bind_pair(Endpoint("0.0.0.0", endpoint.port))
    yield ip4
    if _has_ipv6():
        yield _bind_pair(Endpoint("::", ip4.endpoint.port))


def _bind_both_families(endpoint: Endpoint) -> socket.socket:
    if not endpoint.host and _has_ipv6():
        return _bound(Endpoint("::", endpoint.port), socket.SOCK_STREAM, only_ipv6=False)
    return _bound(Endpoint(endpoint.host or "0.0.0.0", endpoint.port), socket.SOCK_STREAM)


def _bind_pair(endpoint: Endpoint) -> Pair:
    """Bind by UDP, then by TCP to the same port; of free ports another is tried where TCP has it taken."""
    for last in (False,) * (_PORT_TRIES - 1) + (True,):
        udp = _bound(endpoint, socket.SOCK_DGRAM)
        try:
            return Pair(udp, _bound(Endpoint(endpoint.host, udp.getsockname()[1]), socket.SOCK_STREAM))
        except ListenError:
            udp.close()
            if endpoint.port or last:
                raise
    raise AssertionError("unreachable")


def _bound(endpoint: Endpoint, kind: socket.SocketKind, *, only_ipv6: bool = True) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    stream = kind == socket.SOCK_STREAM
    try:
        bound = socket.socket(family, kind)
        try:
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
            if stream:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            else:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            bound.bind(endpoint)
            if stream:
                bound.listen(_BACKLOG)
                bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        what = "TCP" if stream else "UDP"
        raise ListenError(f"can't listen on {endpoint} by {what}: {error.strerror}") from error
    return bound


def _has_ipv6() -> bool:
    """Tell whether IPv6 sockets can be bound: kernels and containers may have it turned off."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError as error:
        if error.errno in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
            return False
        raise
    return True
