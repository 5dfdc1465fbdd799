"""The addresses to listen on, and the sockets bound to them: one UDP and one TCP socket to an address."""

import contextlib
import errno
import ipaddress
import logging
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tsnameserver.errors import ListenError

log = logging.getLogger(__name__)

IP_PKTINFO = 26 if sys.platform == "darwin" else 8
"""The number of the socket option IP_PKTINFO. The socket module has no name for it before Python 3.12."""
_RECEIVE_BUFFER = 4 << 20
"""The receive buffer to ask for, in bytes. It is large, so that a burst of packets isn't lost during a reload."""
_SEND_BUFFER = 4 << 20
"""The send buffer to ask for, in bytes. While the kernel looks for a neighbour that is gone, it keeps the responses to
that neighbour for three seconds. These responses can take 208 KiB for each neighbour, which would fill a buffer of the
default size. With the usual limit of 208 KiB (net.core.wmem_max), Linux grants twice as much."""
_STREAM_BUFFER = 32 << 10
"""The kernel buffer of a TCP connection in each direction, in bytes. It is small, because there can be many clients."""
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SO_MEMINFO = 55
_DROPS = 8
"""The index of the number in SO_MEMINFO that counts packets dropped for want of buffer (linux/sock_diag.h)."""
_BACKLOG = 512
_PORT_TRIES = 20


class Endpoint(NamedTuple):
    """An address to listen on. An empty *host* means all addresses, and port 0 means any free port."""

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
        """Return the address and port to which the pair is bound."""
        return Endpoint(*self.udp.getsockname()[:2])

    def close(self) -> None:
        """Close both sockets."""
        self.udp.close()
        self.tcp.close()


@dataclass(frozen=True, slots=True)
class Sockets:
    """All sockets that the process listens on."""

    pairs: tuple[Pair, ...]
    health: socket.socket | None
    metrics: socket.socket | None = None

    def close(self) -> None:
        """Close all sockets."""
        for pair in self.pairs:
            pair.close()
        for listener in (self.health, self.metrics):
            if listener is not None:
                listener.close()

    def __str__(self) -> str:
        said = ", ".join(str(pair.endpoint) for pair in self.pairs)
        for what, listener in (("probes", self.health), ("metrics", self.metrics)):
            if listener is not None:
                said += f"; {what} on {Endpoint(*listener.getsockname()[:2])}"
        return said


def bind(endpoints: Iterable[Endpoint], health: Endpoint | None, metrics: Endpoint | None = None) -> Sockets:
    """Bind a pair of sockets to each of *endpoints*, and a socket to *health*. Raises ListenError.

    An endpoint without a host gets a pair for each address family. If *metrics* can't be bound, that is only
    logged, because the nameserver can answer without metrics.
    """
    with contextlib.ExitStack() as opened:
        pairs = []
        for endpoint in endpoints:
            for pair in _bind_families(endpoint):
                opened.callback(pair.close)
                pairs.append(pair)
        listener = None if health is None else _bind_both_families(health)
        opened.pop_all()
    _tell_of_buffers(pairs)
    return Sockets(tuple(pairs), listener, None if metrics is None else _bind_if_free(metrics))


def _bind_if_free(endpoint: Endpoint) -> socket.socket | None:
    try:
        return _bind_both_families(endpoint)
    except ListenError as error:
        log.error("metrics: %s", error)
        return None


def dropped_packets(bound: socket.socket) -> int | None:
    """Return how many packets the kernel dropped because the buffer of *bound* was full; None if that isn't known."""
    if sys.platform != "linux":
        return None
    try:
        numbers = bound.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_DROPS + 1))
    except OSError:  # an older kernel, or a sandbox
        return None
    return int.from_bytes(numbers[4 * _DROPS :], sys.byteorder) if len(numbers) == 4 * (_DROPS + 1) else None


def _enlarge(bound: socket.socket, size: int, forced: int, option: int) -> None:
    """Ask for a buffer of *size* bytes: by the option *forced*, which only root can set, or else by *option*."""
    for each in (*((forced,) if sys.platform == "linux" else ()), option):
        with contextlib.suppress(OSError):  # not root, or, on some systems, more than the limit
            bound.setsockopt(socket.SOL_SOCKET, each, size)
            return


def _tell_of_buffers(pairs: Iterable[Pair]) -> None:
    overhead = 2 if sys.platform == "linux" else 1  # Linux reports twice the size that is for packets
    sizes = [pair.udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // overhead for pair in pairs]
    smallest = min(sizes, default=_RECEIVE_BUFFER)
    less = ""
    if smallest < _RECEIVE_BUFFER:
        less = f", not {_RECEIVE_BUFFER >> 10}: the system's limit (net.core.rmem_max on Linux)"
    log.info("a burst of queries has %d KiB to wait in%s", smallest >> 10, less)


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
    """Bind a UDP socket and a TCP socket to one port.

    If the port of *endpoint* is 0, try several ports until both sockets can have the same one.
    """
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
                for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # connections inherit the options of their listener
                    bound.setsockopt(socket.SOL_SOCKET, option, _STREAM_BUFFER)
            else:
                _enlarge(bound, _RECEIVE_BUFFER, _SO_RCVBUFFORCE, socket.SO_RCVBUF)
                _enlarge(bound, _SEND_BUFFER, _SO_SNDBUFFORCE, socket.SO_SNDBUF)
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
    """Tell whether IPv6 sockets can be bound. A kernel or a container can have IPv6 turned off."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError as error:
        if error.errno in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
            return False
        raise
    return True
