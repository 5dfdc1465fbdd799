"""The attacks on a server by one client, and the program that carries out an attack in a process of its own."""

import itertools
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from dnsbench.errors import BenchError
from dnsbench.lonely import HERE, client_that_is_gone
from dnsbench.queries import addresses, packet

_ATTACKER = "127.0.0.2"
_CONNECTIONS = 500
"""The number of the attacker's connections: the most that our server allows to one client."""
_PIPELINED = 16 << 10
"""The size in bytes of the block of queries that each connection sends again and again."""
_QUERIES_A_SECOND = 200
_NICE = 15
"""The niceness of the attacker.

The attacker shares a core with the victim, and runs only while the victim doesn't need the core.
"""
_QUERY = packet(next(iter(addresses(1))))


class Attack(StrEnum):
    """A way in which one client attacks a server."""

    FLOOD = "flood"
    """The client sends queries by 500 TCP connections, as fast as the server takes them, and reads the answers."""
    GONE = "gone"
    """The client sends 200 queries a second from an address of the local network that no machine has."""


@contextmanager
def attacked(attack: Attack, port: int, core: int) -> Iterator[None]:
    """Attack the server at *port* from *core* until the end of the block; raises BenchError."""
    command = ["taskset", "-c", str(core), "nice", "-n", str(_NICE), sys.executable, "-m", __name__, attack, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        try:
            if process.stdout is None or not process.stdout.readline():
                raise BenchError(f"the attacker ({attack}) doesn't start")
            yield
            if process.poll() is not None:
                raise BenchError(f"the attacker ({attack}) ended early with code {process.returncode}")
        finally:
            process.kill()


def _flood(port: int) -> None:
    queries = memoryview((len(_QUERY).to_bytes(2, "big") + _QUERY) * (_PIPELINED // (len(_QUERY) + 2)))
    left = {}
    with selectors.DefaultSelector() as selector:
        for _ in range(_CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port), source_address=(_ATTACKER, 0))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
            left[connection] = queries
        _say_begun()
        while True:
            for key, events in selector.select():
                connection = key.data
                if events & selectors.EVENT_READ and not connection.recv(1 << 18):
                    raise SystemExit("the server has closed a connection")
                if events & selectors.EVENT_WRITE:
                    sent = connection.send(left[connection])
                    left[connection] = left[connection][sent:] or queries


def _ask_as_if_gone(port: int) -> None:
    with client_that_is_gone() as client:
        begun = time.monotonic()
        for number in itertools.count():
            client.sendto(_QUERY, (HERE, port))
            if not number:
                _say_begun()
            time.sleep(max(0.0, begun + (number + 1) / _QUERIES_A_SECOND - time.monotonic()))


def _say_begun() -> None:
    sys.stdout.write("the attack has begun\n")
    sys.stdout.flush()


_CARRY_OUT = {Attack.FLOOD: _flood, Attack.GONE: _ask_as_if_gone}

if __name__ == "__main__":
    _CARRY_OUT[Attack(sys.argv[1])](int(sys.argv[2]))
