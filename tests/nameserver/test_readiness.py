"""Tests of the set of watched sockets, which tells the ready ones."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from tsnameserver.readiness import Readiness, Selected


@dataclass
class Watched:
    """A connection. One end is watched under the name "own", and the test uses the other end."""

    readiness: Readiness[str] | Selected[str]
    own: socket.socket
    other: socket.socket


@pytest.fixture(params=[Readiness, Selected])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    own, other = socket.socketpair()
    with closing(request.param()) as readiness, own, other:
        readiness.watch(own.fileno(), "own")
        yield Watched(readiness, own, other)


def test_a_readable_socket_is_ready_until_it_is_no_longer_watched(watched: Watched) -> None:
    assert watched.readiness.ready() == []
    watched.other.send(b"x")
    assert [watched.readiness.ready(), watched.readiness.ready()] == [["own"], ["own"]]
    watched.readiness.forget(watched.own.fileno())
    assert watched.readiness.ready() == []


def test_a_socket_that_waits_for_room_is_ready_only_when_it_is_writable(watched: Watched) -> None:
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


def test_each_of_many_ready_sockets_has_its_turn(watched: Watched) -> None:
    with ExitStack() as stack:
        for number in range(300):
            own, other = map(stack.enter_context, socket.socketpair())
            watched.readiness.watch(own.fileno(), str(number))
            other.send(b"x")
        seen: set[str] = set()
        for _ in range(3):
            seen.update(watched.readiness.ready())
        assert seen == set(map(str, range(300)))
