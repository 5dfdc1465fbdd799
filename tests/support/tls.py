"""A certificate for TLS servers, and a TLS server that closes each connection as soon as it has answered."""

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

Send = Callable[[bytes], None]
Answer = Callable[[str, Send], None]
"""A function that answers a request, given the request's target, such as ``/api?limit=1``."""


def certified(folder: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server at 127.0.0.1, with its self-signed certificate in *folder*/``ca.crt``."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=api"
    key, crt = folder / "server.key", folder / "ca.crt"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(crt)]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(crt, key)
    return tls


@contextmanager
def closing_server(folder: Path, answer: Answer, closed: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Serve https in threads while the context lasts, and yield the URL.

    Each connection is closed at the end of *answer*, and then *closed* is called.
    """
    tls = certified(folder)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), tls.wrap_socket(connection, server_side=True) as client:
            answer(client.recv(1 << 16).split()[1].decode(), client.sendall)
        closed()

    def accept() -> None:
        with suppress(OSError):  # the end of the test
            while True:
                Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
