"""Tests of addresses and of binding them."""

import socket
from contextlib import closing

import pytest
from tsnameserver.errors import ListenError
from tsnameserver.sockets import Endpoint, bind, parse_endpoint


@pytest.mark.parametrize("text", [":53", "127.0.0.1:53", "[::1]:53", "0.0.0.0:0"])
def test_an_endpoint_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_endpoint(text)) == text


def test_a_pair_has_one_port_by_udp_and_tcp() -> None:
    sockets = bind([Endpoint("127.0.0.1", 0)], Endpoint("127.0.0.1", 0))
    (pair,) = sockets.pairs
    assert sockets.health is not None
    with closing(sockets):
        assert pair.udp.getsockname() == pair.tcp.getsockname()
        assert str(sockets) == f"{pair.endpoint}; probes on 127.0.0.1:{sockets.health.getsockname()[1]}"


def test_no_host_is_both_families_on_one_port() -> None:
    sockets = bind([Endpoint("", 0)], None)
    assert [pair.endpoint.host for pair in sockets.pairs] == ["0.0.0.0", "::"]
    assert len({pair.endpoint.port for pair in sockets.pairs}) == 1
    sockets.close()


def test_probes_without_a_host_are_answered_on_both_families() -> None:
    sockets = bind([], Endpoint("", 0))
    assert sockets.health is not None
    with closing(sockets):
        port = sockets.health.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=1).close()


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_taken_port_is_named(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port} by .*in use"):
            bind([Endpoint("127.0.0.1", 0), Endpoint("127.0.0.1", port)], None)
