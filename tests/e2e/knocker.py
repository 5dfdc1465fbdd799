"""Makes new connections all the time, and prints for each its start, its duration, and its error, if any.

`load.Load` runs this program in a Pod that has nothing but Python, or on a device. The arguments are the number of
connections a second, the words with which a server has to answer, and the targets, which take turns. A target is
`tcp://HOST:PORT`, or the same with http, https or udp; one with http or https can have a path. The program doesn't
check certificates. It ends at SIGTERM, after its last connection.
"""

import errno
import itertools
import json
import signal
import socket
import ssl
import sys
import threading
import time
from urllib.parse import SplitResult, urlsplit

PATIENCE = 5.0  # seconds for a connection
LOWEST, HIGHEST = 1024, 32767
"""The range of the source ports. It is below the ports that the kernel chooses."""
PORTS = itertools.count(int(time.time() * 25))
"""The sequence of source ports. It begins after the ports that an earlier run of this program has used.

`knock` says why each port is used so rarely.
"""
TRUSTING = ssl.create_default_context()
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


def knock(target: SplitResult) -> bytes:
    """Connect to the server at *target*, and return the words with which it answers.

    The name of the server is looked up each time.
    If nobody answers a connection, the node remembers for two minutes to which Pod it sent the packets. During this
    time, it sends a new connection from the same source port to the same Pod. So each connection has another source
    port.
    """
    kind = socket.SOCK_DGRAM if target.scheme == "udp" else socket.SOCK_STREAM
    # Like users' programs, look up both IP families, by the Pod's search path. But in a cluster without IPv6, the IPv6
    # addresses of Tailscale Services lead nowhere.
    found = socket.getaddrinfo(target.hostname, target.port, type=kind)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    with socket.socket(family, kind) as connection:
        connection.settimeout(PATIENCE)
        bind(connection)
        try:
            connection.connect(address)
        except TimeoutError as problem:
            raise TimeoutError(f"no connection to {address[0]}") from problem
        if target.scheme == "udp":
            connection.send(b"?")
            return connection.recv(1024)
        if target.scheme == "tcp":
            return everything(connection)
        question = f"GET {target.path or '/'} HTTP/1.0\r\nHost: {target.hostname}\r\n\r\n".encode()
        if target.scheme == "http":
            connection.sendall(question)
            return everything(connection)
        with TRUSTING.wrap_socket(connection, server_hostname=target.hostname) as encrypted:
            encrypted.sendall(question)
            return everything(encrypted)


def bind(connection: socket.socket) -> None:
    """Bind *connection* to the next source port that is free. Skip ports that other programs on this machine use."""
    for number in PORTS:
        try:
            connection.bind(("", LOWEST + number % (HIGHEST - LOWEST + 1)))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
        else:
            return


def everything(connection: socket.socket) -> bytes:
    """Return all bytes that come on *connection* until the server ends it."""
    return b"".join(iter(lambda: connection.recv(1024), b""))


def attempt(target: str, words: bytes) -> None:
    """Open one connection to *target*, compare the answer with *words*, and print the result."""
    began, clock = time.time(), time.monotonic()
    error = ""
    try:
        answer = knock(urlsplit(target))
        if not answer.endswith(words):
            error = f"answer: {answer!r}"
    except OSError as problem:
        error = f"{type(problem).__name__}: {problem}"
    said = {"at": began, "took": round(time.monotonic() - clock, 3), "target": target, "error": error}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main(rate: float, words: str, *targets: str) -> None:
    """Open *rate* connections a second, to each of *targets* in turn, until SIGTERM. *words* are the right answer."""
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    start = time.monotonic()
    threads: list[threading.Thread] = []
    count = 0
    while not ending.wait(max(0, start + count / rate - time.monotonic())):
        threads = [thread for thread in threads if thread.is_alive()]
        threads.append(threading.Thread(target=attempt, args=(targets[count % len(targets)], words.encode())))
        threads[-1].start()
        count += 1
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(float(sys.argv[1]), *sys.argv[2:])
