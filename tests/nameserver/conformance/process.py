"""Runs a nameserver as a process, and talks to it."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import dns.message

from tests.nameserver.conformance.packets import framed
from tests.nameserver.samples import make_query, parsed

PATIENCE = 30.0
"""The longest time in seconds for an answer on a busy machine."""
WHO = "replica-7"
_RECEIVE_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[str]
    port: int
    probes: int
    host: str = "127.0.0.1"

    def says(self, what: str) -> str:
        """Read the log of the process until a line contains *what*, and return that line."""
        assert self.process.stderr is not None
        said = []
        while line := self.process.stderr.readline():
            said.append(line)
            if what in line:
                return line
        raise AssertionError(f"it never said {what!r}: {said}")

    @contextmanager
    def udp_socket(self, host: str | None = None) -> Iterator[socket.socket]:
        """Yield a socket that accepts answers only from the address that it sends to."""
        address = host or self.host
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            client.settimeout(PATIENCE)
            client.connect((address, self.port))
            yield client

    def udp(self, query: bytes, host: str | None = None) -> bytes:
        with self.udp_socket(host) as client:
            client.send(query)
            return client.recv(65535)

    @contextmanager
    def tcp_socket(self, host: str | None = None) -> Iterator[tuple[socket.socket, BinaryIO]]:
        """Yield a TCP connection, and the stream of bytes that the server sends on it."""
        with socket.create_connection((host or self.host, self.port), PATIENCE) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client.makefile("rb") as stream:
                yield client, stream

    def tcp(self, query: bytes, host: str | None = None) -> bytes:
        with self.tcp_socket(host) as (client, stream):
            client.sendall(framed(query))
            return read_message(stream)

    def ask(self, name: str, qtype: str = "A") -> dns.message.Message:
        """Send an ordinary query by UDP, and return the answer."""
        return parsed(self.udp(make_query(name, qtype).to_wire()))

    def status(self, path: str) -> int:
        with closing(http.client.HTTPConnection(self.host, self.probes, timeout=PATIENCE)) as client:
            client.request("GET", path)
            return client.getresponse().status

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the process during the block, so that packets to it wait in its sockets."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def read_message(stream: BinaryIO) -> bytes:
    length = int.from_bytes(stream.read(2), "big")
    response = stream.read(length)
    assert length == len(response) > 0, "the connection ended"
    return response


@contextmanager
def nameserver(
    records: Path, *arguments: str, listen: str = "127.0.0.1:0", host: str = "127.0.0.1"
) -> Iterator[Server]:
    """Run a nameserver during the block. The block begins when the nameserver serves *records*."""
    health = listen.rpartition(":")[0] + ":0"
    words = [sys.executable, "-m", "tsnameserver", "--records", str(records), "--listen", listen, "--health", health]
    words += ["--nsid", WHO]
    environment = {**os.environ, "TSNAMESERVER_METRICS": ""}
    with subprocess.Popen([*words, *arguments], stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            starting = Server(process, 0, 0)
            listens = re.search(r"listening on .*?:(\d+)[,;].*?probes on \S*:(\d+)", starting.says("listening on"))
            assert listens
            starting.says("serving")
            yield Server(process, int(listens[1]), int(listens[2]), host)
        finally:
            process.kill()
