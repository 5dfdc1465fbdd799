"""A local network with nobody on it but the machine itself, for a test that sends to a neighbour that is gone."""

import ctypes
import errno
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

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

_T = TypeVar("_T")


def in_a_lonely_network(call: Callable[[], _T]) -> _T:
    """Call it in a thread with a network of its own, in which this machine is HERE; sockets and threads inherit it."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_leave_for_it).result()
        return thread.submit(call).result()


def _leave_for_it() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        assert ctypes.get_errno() == errno.EPERM, os.strerror(ctypes.get_errno())
        pytest.skip("a network namespace needs CAP_SYS_ADMIN")
    for command in _COMMANDS:
        subprocess.run(["ip", *command.split()], check=True, timeout=30)


@contextmanager
def client_that_is_gone() -> Iterator[socket.socket]:
    """Give a socket that sends from GONE, where nobody receives the answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
        client.bind((GONE, 0))
        yield client
