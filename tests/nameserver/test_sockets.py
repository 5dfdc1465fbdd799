"""Tests of listening addresses and their sockets.

The conformance tests show that queries over both IP families get answers.
"""

import socket
from contextlib import closing

import pytest
from tsnameserver.errors import ListenError
from tsnameserver.sockets import Endpoint, bind

LOOPBACK = Endpoint("127.0.0.1", 0)


@pytest.mark.parametrize(("kind", "by"), [(socket.SOCK_DGRAM, "UDP"), (socket.SOCK_STREAM, "TCP")])
def test_the_error_about_a_listening_port_in_use_names_the_port(kind: socket.SocketKind, by: str) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(LOOPBACK)
        if kind == socket.SOCK_STREAM:
            taken.listen()
        endpoint = Endpoint(*taken.getsockname())
        with pytest.raises(ListenError, match=rf"{endpoint} by {by}: .*in use"):
            bind([LOOPBACK, endpoint], None)
        if kind == socket.SOCK_STREAM:
            with pytest.raises(ListenError, match=rf"{endpoint} by TCP: .*in use"):
                bind([LOOPBACK], endpoint)


def test_the_udp_and_tcp_sockets_have_the_same_port_and_every_address_is_logged() -> None:
    sockets = bind([LOOPBACK], LOOPBACK, LOOPBACK)
    (pair,) = sockets.pairs
    with closing(sockets):
        assert pair.udp.getsockname() == pair.tcp.getsockname()
        assert sockets.health is not None
        assert sockets.metrics is not None
        ports = [each.getsockname()[1] for each in (pair.udp, sockets.health, sockets.metrics)]
        assert str(sockets) == "127.0.0.1:{}; probes on 127.0.0.1:{}; metrics on 127.0.0.1:{}".format(*ports)


def test_a_port_can_be_bound_again_while_an_old_connection_is_closing() -> None:
    with closing(bind([LOOPBACK], None)) as sockets:
        pair = sockets.pairs[0]
        endpoint = pair.endpoint
        with socket.create_connection(endpoint, timeout=30) as client:
            pair.tcp.setblocking(True)
            pair.tcp.accept()[0].close()  # the side that closes first keeps the connection in TIME_WAIT
            assert client.recv(1) == b""
    bind([endpoint], None).close()


def test_the_nameserver_serves_names_even_if_the_port_for_metrics_is_in_use(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(LOOPBACK) as taken:
        endpoint = Endpoint(*taken.getsockname())
        sockets = bind([LOOPBACK], None, endpoint)
    with closing(sockets):
        assert (len(sockets.pairs), sockets.metrics) == (1, None)
    assert f"metrics: can't listen on {endpoint} by TCP" in caplog.text


def test_the_udp_send_buffer_is_larger_than_the_default() -> None:
    with closing(bind([LOOPBACK], None)) as sockets, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ordinary:
        ours, default = (
            each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for each in (sockets.pairs[0].udp, ordinary)
        )
    assert ours >= 2 * default


def test_the_nameserver_logs_the_size_of_its_udp_receive_buffer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        sockets = bind([LOOPBACK, Endpoint("127.0.0.2", 0)], None)
    with closing(sockets):
        size = sockets.pairs[0].udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ordinary:
        assert size > ordinary.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    limit = "" if size >= 8 << 20 else ", not 4096: the system's limit (net.core.rmem_max on Linux)"
    assert caplog.messages == [f"a burst of queries has {size >> 11} KiB to wait in{limit}"]
