"""An API server that answers each request with the request's head, by TLS and in threads.

A test can set a script for a path, which answers the requests for that path instead.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.tls import certified


class Peer:
    """The API server's side of a connection."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._received = b""
        self.connection = connection

    def head(self) -> bytes:
        """Return the head of the next request, or no bytes at the end of the connection."""
        while b"\r\n\r\n" not in self._received:
            if not (data := self.connection.recv(1 << 16)):
                return b""
            self._received += data
        head, end, self._received = self._received.partition(b"\r\n\r\n")
        return head + end

    def read(self, most: int = 1 << 16) -> bytes:
        """Return the next bytes, at most *most*, or no bytes at the end of the connection."""
        data, self._received = self._received[:most], self._received[most:]
        return data or self.connection.recv(most)

    def read_exactly(self, size: int) -> bytes:
        """Return *size* bytes, or fewer bytes at the end of the connection."""
        data = b""
        while len(data) < size and (more := self.read(size - len(data))):
            data += more
        return data

    def send(self, data: bytes) -> None:
        """Send *data*."""
        self.connection.sendall(data)

    def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        """Send a whole answer."""
        lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def say_goodbye(self) -> None:
        """End the TLS session with a close_notify, but leave the TCP connection open."""
        with contextlib.suppress(OSError):
            self.connection.setblocking(False)
            self.connection.unwrap()
        self.connection.setblocking(True)

    def close(self) -> None:
        """Send a close_notify, and close the TCP connection at once, as Go does."""
        self.say_goodbye()
        self.connection.close()


Script = Callable[[Peer, bytes], None]
"""A function that answers a request. It gets the API server's side of the connection, and the head of the request."""


def echo(peer: Peer, head: bytes) -> None:
    """Answer with the head and the body of the request."""
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
    peer.answer(head + peer.read_exactly(length))


def last(raw: bytes) -> Script:
    """Return a script that sends *raw*, and closes the connection at once."""

    def script(peer: Peer, _: bytes) -> None:
        peer.send(raw)
        peer.close()

    return script


def silent(peer: Peer, _: bytes) -> None:
    """Answer nothing, and read all bytes until the caller closes the connection."""
    while peer.read():
        pass


class EchoingServer:
    """A server that answers each request by the script for its path or, without a script, with the request's head."""

    def __init__(self, folder: Path) -> None:
        self.tls = certified(folder)
        self.ca = folder / "ca.crt"
        self.port = 0
        self.scripts: dict[str, Script] = {}
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = threading.Semaphore(0)
        """A semaphore that is released once for each connection that ends."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the context lasts."""
        self._listener = self._listen()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def away(self, *, silent: bool = False) -> Iterator[None]:
        """Refuse connections while the context lasts or, if *silent*, let the kernel accept them but answer nothing."""
        self._stop()
        try:
            with socket.create_server(("127.0.0.1", self.port)) if silent else contextlib.nullcontext():
                yield
        finally:
            self._listener = self._listen()

    def _listen(self) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.port = listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=[listener], daemon=True)
        self._accepting.start()
        return listener

    def _stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the end of the context
            while True:
                threading.Thread(target=self._serve, args=[listener.accept()[0]], daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(self.tls.wrap_socket(accepted, server_side=True))
            self.connections += 1
            with peer.connection:
                while peer.connection.fileno() >= 0 and (head := peer.head()):
                    self.heads.append(head)
                    path = head.split()[1].decode().partition("?")[0]
                    self.scripts.get(path, echo)(peer, head)
        self.ended.release()
