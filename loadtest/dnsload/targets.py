"""The targets of queries: addresses as users write them, and the cluster's DNS."""

import socket
from pathlib import Path
from typing import NamedTuple

from dnsload.errors import InputError

RESOLV_CONF = Path("/etc/resolv.conf")
_RECEIVE_BUFFER = 4 << 20
"""The size of the receive buffer that a socket asks for, in bytes. Only root gets more than net.core.rmem_max."""
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO_DROPS = 8


class Target(NamedTuple):
    """An address and a port to which queries go."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_target(text: str, resolv_conf: Path = RESOLV_CONF) -> Target:
    """Return the target that *text* names; raises InputError.

    *text* is `HOST`, `HOST:PORT`, `[ADDR]:PORT`, a bare IPv6 address, or `cluster`. The latter is the first nameserver
    in *resolv_conf*, which in a Pod is the cluster's DNS.
    """
    if text == "cluster":
        return Target(_first_nameserver(resolv_conf), 53)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if bracket else ""
        rest = rest or ":"
        if not bracket or not rest.startswith(":"):
            raise InputError(f"{text!r} is not [ADDR]:PORT")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise InputError(f"{text!r} has no address")
    return Target(_address(host), _port(port, text))


def _port(text: str, whole: str) -> int:
    if not text:
        return 53
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise InputError(f"{whole!r} has a port that is not 1 to 65535")
    return int(text)


def _address(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{host!r} can't be resolved: {error}") from error
    return str(found[0][4][0])


def _first_nameserver(resolv_conf: Path) -> str:
    try:
        lines = resolv_conf.read_text().splitlines()
    except OSError as error:
        raise InputError(f"{resolv_conf} can't be read: {error.strerror}") from error
    for words in map(str.split, lines):
        if words[:1] == ["nameserver"] and len(words) > 1:
            return words[1]
    raise InputError(f"{resolv_conf} names no nameserver")


def udp_socket(target: Target, source: str = "") -> socket.socket:
    """Return a nonblocking UDP socket connected to *target*, with a large receive buffer. Raises InputError.

    It sends from the address *source*. With "", the system chooses the address.
    """
    family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
    try:
        made = socket.socket(family, socket.SOCK_DGRAM)
        try:
            _enlarge(made)
            made.setblocking(False)
            if source:
                _bind(made, source)
            made.connect(target)
        except (OSError, InputError):
            made.close()
            raise
    except OSError as error:
        raise InputError(f"{target} can't be reached: {error.strerror}") from error
    return made


def _bind(made: socket.socket, source: str) -> None:
    try:
        made.bind((source, 0))
    except OSError as error:
        raise InputError(f"--source {source} can't be used: {error.strerror}") from error


def _enlarge(made: socket.socket) -> None:
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    except OSError:  # not root, or not Linux
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)


def receive_drops(bound: socket.socket) -> int:
    """Return the number of packets that the kernel has dropped because the receive queue of *bound* was full.

    Return 0 if the system doesn't tell the number.
    """
    try:
        answer = bound.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
    except OSError:
        return 0
    fields = memoryview(answer).cast("I")
    return fields[_MEMINFO_DROPS] if len(fields) > _MEMINFO_DROPS else 0
