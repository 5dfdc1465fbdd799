"""Tests of `Readiness`, the set of watched sockets that tells which of them are ready to receive or to send."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from tsnameserver.readiness import Readiness, Selected


@dataclass
class Watched:
    """A pair of connected sockets. *own* is watched under the name "own", and the test uses *other*."""

    readiness: Readiness[str] | Selected[str]
    own: socket.socket
    other: socket.socket


@pytest.fixture(params=[Readiness, Selected])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    own, other = socket.socketpair()
    with closing(request.param()) as readiness, own, other:
        readiness.watch(own.fileno(), "own")
        yield Watched(readiness, own, other)


def test_a_watched_socket_with_data_is_ready_until_it_is_no_longer_watched(watched: Watched) -> None:
    assert watched.readiness.ready() == []
    watched.other.send(b"x")
    assert [watched.readiness.ready(), watched.readiness.ready()] == [["own"], ["own"]]
    watched.readiness.forget(watched.own.fileno())
    assert watched.readiness.ready() == []


def test_a_watched_socket_that_waits_to_send_is_ready_only_when_it_is_writable(watched: Watched) -> None:
    watched.readiness.want(watched.own.fileno(), room=True)
    assert watched.readiness.ready() == ["own"]
    watched.other.send(b"x")
    assert watched.readiness.ready() == ["own"]
    watched.readiness.want(watched.own.fileno(), room=False)
    assert watched.readiness.ready() == ["own"]
    watched.own.recv(1)
    assert watched.readiness.ready() == []


def test_a_closed_socket_is_never_ready(watched: Watched) -> None:
    watched.other.send(b"x")
    watched.readiness.close_socket(watched.own)
    assert (watched.readiness.ready(), watched.own.fileno()) == ([], -1)


def test_each_of_hundreds_of_ready_sockets_is_reported_after_a_few_calls(watched: Watched) -> None:
    with ExitStack() as stack:
        for number in range(300):
            own, other = map(stack.enter_context, socket.socketpair())
            watched.readiness.watch(own.fileno(), str(number))
            other.send(b"x")
        seen: set[str] = set()
        for _ in range(3):
            seen.update(watched.readiness.ready())
        assert seen == set(map(str, range(300)))
