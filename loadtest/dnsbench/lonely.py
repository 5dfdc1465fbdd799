"""A local network without other machines, in which a server sends answers to a client that doesn't exist."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from dnsbench.errors import BenchError

HERE, GONE = "192.0.2.1", "192.0.2.9"
_CLONE_NEWNET = 0x40000000
_IP_TRANSPARENT = 19
_COMMANDS = (
    "link set lo up",
    "link add lonely type veth peer name nobody",
    f"address add {HERE}/24 dev lonely",
    "link set lonely up",
    "link set nobody up",
)
_SECONDS = 30

_T = TypeVar("_T")


def in_a_lonely_network(call: Callable[[], _T]) -> _T:
    """Run *call* in a thread whose network has only this machine, with the address `HERE`; raises BenchError.

    Sockets, threads and processes that the thread makes belong to this network.
    """
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_leave_for_it).result()
        return thread.submit(call).result()


def _leave_for_it() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise BenchError(f"a network of its own needs root: {os.strerror(ctypes.get_errno())}")
    for command in _COMMANDS:
        words = ["ip", *command.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - our own words
        if done.returncode:
            raise BenchError(f"`ip {command}` fails: {done.stderr.strip()}")


@contextmanager
def client_that_is_gone() -> Iterator[socket.socket]:
    """Yield a socket that sends from the address `GONE`, which no machine has, so that nobody receives the answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
        client.bind((GONE, 0))
        yield client
