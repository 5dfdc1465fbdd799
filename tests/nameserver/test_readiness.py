"""What is called of sockets that are watched."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from tsnameserver.readiness import Readiness, Selected


class Watched:
    """One end of a connection, and how often it has been called of."""

    def __init__(self, readiness: Readiness | Selected) -> None:
        self.readiness = readiness
        self.own, self.other = socket.socketpair()
        self.calls = 0
        readiness.watch(self.own.fileno(), self.call)

    def call(self) -> None:
        self.calls += 1

    def called(self) -> int:
        self.calls = 0
        assert self.readiness.run() == self.calls
        return self.calls


@pytest.fixture(params=[Readiness, Selected])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    with closing(request.param()) as readiness:
        made = Watched(readiness)
        with made.own, made.other:
            yield made


def test_a_socket_is_called_of_when_it_can_be_read_until_it_is_forgotten(watched: Watched) -> None:
    assert watched.called() == 0
    watched.other.send(b"x")
    assert [watched.called(), watched.called()] == [1, 1]
    watched.readiness.forget(watched.own.fileno())
    assert watched.called() == 0


def test_a_socket_that_wants_room_is_called_of_when_it_can_be_written_to_alone(watched: Watched) -> None:
    watched.readiness.want(watched.own.fileno(), room=True)
    assert watched.called() == 1
    watched.other.send(b"x")
    assert watched.called() == 1
    watched.readiness.want(watched.own.fileno(), room=False)
    assert watched.called() == 1
    watched.own.recv(1)
    assert watched.called() == 0


def test_a_socket_that_is_closed_is_called_of_no_more(watched: Watched) -> None:
    watched.other.send(b"x")
    watched.readiness.close_socket(watched.own)
    assert (watched.called(), watched.own.fileno()) == (0, -1)


def test_a_call_may_forget_others_that_are_ready(watched: Watched) -> None:
    own, other = socket.socketpair()
    with own, other:

        def forget_both() -> None:
            for each in (own, watched.own):
                watched.readiness.forget(each.fileno())

        watched.readiness.watch(own.fileno(), forget_both)
        for each in (other, watched.other):
            each.send(b"x")
        watched.readiness.run()
        assert watched.called() == 0
