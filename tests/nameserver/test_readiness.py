"""Which of the sockets that are watched are ready."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from tsnameserver.readiness import Readiness, Selected


@dataclass
class Watched:
    """One end of a connection, which is watched as "own", and the other end."""

    readiness: Readiness[str] | Selected[str]
    own: socket.socket
    other: socket.socket


@pytest.fixture(params=[Readiness, Selected])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    own, other = socket.socketpair()
    with closing(request.param()) as readiness, own, other:
        readiness.watch(own.fileno(), "own")
        yield Watched(readiness, own, other)


def test_a_socket_is_ready_when_it_can_be_read_until_it_is_forgotten(watched: Watched) -> None:
    assert watched.readiness.ready() == []
    watched.other.send(b"x")
    assert [watched.readiness.ready(), watched.readiness.ready()] == [["own"], ["own"]]
    watched.readiness.forget(watched.own.fileno())
    assert watched.readiness.ready() == []


def test_a_socket_that_wants_room_is_ready_when_it_can_be_written_to_alone(watched: Watched) -> None:
    watched.readiness.want(watched.own.fileno(), room=True)
    assert watched.readiness.ready() == ["own"]
    watched.other.send(b"x")
    assert watched.readiness.ready() == ["own"]
    watched.readiness.want(watched.own.fileno(), room=False)
    assert watched.readiness.ready() == ["own"]
    watched.own.recv(1)
    assert watched.readiness.ready() == []


def test_a_socket_that_is_closed_is_ready_no_more(watched: Watched) -> None:
    watched.other.send(b"x")
    watched.readiness.close_socket(watched.own)
    assert (watched.readiness.ready(), watched.own.fileno()) == ([], -1)


def test_of_many_sockets_that_stay_ready_each_has_its_turn(watched: Watched) -> None:
    with ExitStack() as stack:
        for number in range(300):
            own, other = map(stack.enter_context, socket.socketpair())
            watched.readiness.watch(own.fileno(), str(number))
            other.send(b"x")
        seen: set[str] = set()
        for _ in range(3):
            seen.update(watched.readiness.ready())
        assert seen == set(map(str, range(300)))
