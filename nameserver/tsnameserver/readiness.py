"""Watches sockets, each under a name, and tells which of them can be read or written to.

`Epoll` is for Linux. `Selected` works on every platform, but a connection with one query takes a fifth more time.
"""

import select
import selectors
import socket
import sys
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Selected(Generic[_T]):
    """Watches sockets through the standard library's selectors."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        """Return the descriptor that can be read when a socket is ready."""
        return self._selector.fileno()

    def watch(self, descriptor: int, name: _T) -> None:
        """Watch whether *descriptor*, which *name* stands for, can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, name)

    def want(self, descriptor: int, *, room: bool) -> None:
        """Watch *descriptor* for writing if *room* is true, and for reading otherwise."""
        key = self._selector.get_key(descriptor)
        self._selector.modify(descriptor, selectors.EVENT_WRITE if room else selectors.EVENT_READ, key.data)

    def forget(self, descriptor: int) -> None:
        """No longer watch *descriptor*, which stays open."""
        self._selector.unregister(descriptor)

    def close_socket(self, watched: socket.socket) -> None:
        """Close *watched*, and no longer watch it."""
        self._selector.unregister(watched)
        watched.close()

    def ready(self) -> list[_T]:
        """Return the names of all ready sockets."""
        return [key.data for key, _ in self._selector.select(0)]

    def close(self) -> None:
        """Stop watching all sockets."""
        self._selector.close()


if sys.platform == "linux":
    _MOST_READY = 128
    """The most sockets that one call returns. The kernel moves these to the end, so the next call returns others."""

    class Epoll(Generic[_T]):
        """Does the same as `Selected`, by the epoll of Linux."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._names: dict[int, _T] = {}

        def fileno(self) -> int:
            """Return the descriptor that can be read when a socket is ready."""
            return self._epoll.fileno()

        def watch(self, descriptor: int, name: _T) -> None:
            """Watch whether *descriptor*, which *name* stands for, can be read."""
            self._epoll.register(descriptor, select.EPOLLIN)
            self._names[descriptor] = name

        def want(self, descriptor: int, *, room: bool) -> None:
            """Watch *descriptor* for writing if *room* is true, and for reading otherwise."""
            self._epoll.modify(descriptor, select.EPOLLOUT if room else select.EPOLLIN)

        def forget(self, descriptor: int) -> None:
            """No longer watch *descriptor*, which stays open."""
            del self._names[descriptor]
            self._epoll.unregister(descriptor)

        def close_socket(self, watched: socket.socket) -> None:
            """Close *watched*. Epoll stops watching a closed socket by itself."""
            del self._names[watched.fileno()]
            watched.close()

        def ready(self) -> list[_T]:
            """Return the names of ready sockets; if there are many, the next call returns the others."""
            return [self._names[descriptor] for descriptor, _ in self._epoll.poll(0, _MOST_READY)]

        def close(self) -> None:
            """Stop watching all sockets."""
            self._epoll.close()

    Readiness = Epoll
else:
    Readiness = Selected
