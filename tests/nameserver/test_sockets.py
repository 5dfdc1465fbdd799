"""Tests of addresses and of binding them."""

import socket
from contextlib import closing

import pytest
from tsnameserver.errors import ListenError
from tsnameserver.sockets import Endpoint, bind, parse_endpoint


@pytest.mark.parametrize("text", [":53", "127.0.0.1:53", "[::1]:53", "0.0.0.0:0"])
def test_an_endpoint_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_endpoint(text)) == text


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


def test_a_taken_port_of_the_probes_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port} by TCP: .*in use"):
            bind([Endpoint("127.0.0.1", 0)], Endpoint("127.0.0.1", port))


def test_a_pair_has_one_port_and_every_address_is_told() -> None:
    loopback = Endpoint("127.0.0.1", 0)
    sockets = bind([loopback], loopback, loopback)
    (pair,) = sockets.pairs
    with closing(sockets):
        assert pair.udp.getsockname() == pair.tcp.getsockname()
        assert sockets.health is not None
        assert sockets.metrics is not None
        ports = [each.getsockname()[1] for each in (pair.udp, sockets.health, sockets.metrics)]
        assert str(sockets) == "127.0.0.1:{}; probes on 127.0.0.1:{}; metrics on 127.0.0.1:{}".format(*ports)


def test_a_port_is_bound_again_while_an_old_connection_lingers() -> None:
    with closing(bind([Endpoint("127.0.0.1", 0)], None)) as sockets:
        pair = sockets.pairs[0]
        endpoint = pair.endpoint
        with socket.create_connection(endpoint, timeout=30) as client:
            pair.tcp.setblocking(True)
            pair.tcp.accept()[0].close()  # who closes first has the connection linger
            assert client.recv(1) == b""
    bind([endpoint], None).close()


def test_names_are_served_where_the_metrics_have_no_port(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sockets = bind([Endpoint("127.0.0.1", 0)], None, Endpoint("127.0.0.1", port))
    with closing(sockets):
        assert (len(sockets.pairs), sockets.metrics) == (1, None)
    assert f"metrics: can't listen on 127.0.0.1:{port} by TCP" in caplog.text


def test_the_log_says_how_much_room_a_burst_has_to_wait_in(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        sockets = bind([Endpoint("127.0.0.1", 0), Endpoint("127.0.0.2", 0)], None)
    with closing(sockets):
        size = sockets.pairs[0].udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ordinary:
        assert size > ordinary.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    limit = "" if size >= 8 << 20 else ", not 4096: the system's limit (net.core.rmem_max on Linux)"
    assert [record.message for record in caplog.records] == [
        f"a burst of queries has {size >> 11} KiB to wait in{limit}"
    ]
