"""Tests of the addresses of targets, and of the sockets for the queries."""

import socket
from pathlib import Path

import pytest
from dnsload.errors import InputError
from dnsload.targets import Target, parse_target, receive_drops, udp_socket


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:5353", Target("127.0.0.1", 5353)),
        ("192.0.2.53", Target("192.0.2.53", 53)),
        ("[::1]:53", Target("::1", 53)),
        ("[2001:db8::1]", Target("2001:db8::1", 53)),
        ("2001:db8::1", Target("2001:db8::1", 53)),
    ],
)
def test_the_address_of_a_target_of_dnsload_is_parsed(text: str, target: Target) -> None:
    assert parse_target(text) == parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["", ":53", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65536", "[::1", "[::1]53", "a b"])
def test_an_invalid_target_of_dnsload_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_target(text)


def test_the_target_named_cluster_is_the_first_nameserver_in_resolv_conf(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("# nameserver 192.0.2.1\nsearch svc\nnameserver 198.51.100.10\nnameserver 192.0.2.2\n")
    assert parse_target("cluster", path) == Target("198.51.100.10", 53)


@pytest.mark.parametrize("text", [None, "search svc\nnameserver\n"])
def test_the_target_named_cluster_is_an_input_error_if_resolv_conf_has_no_nameserver(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "resolv.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=r"resolv\.conf"):
        parse_target("cluster", path)


def test_packets_that_the_kernel_drops_at_a_socket_are_counted() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        with udp_socket(Target(*sender.getsockname())) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            assert receive_drops(receiver) == 0
            for _ in range(100):
                sender.sendto(bytes(1000), receiver.getsockname())
            assert 0 < receive_drops(receiver) < 100
