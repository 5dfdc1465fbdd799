"""The control server of both operators, on loopback: the testbed's own, without what only proxies need."""

import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.control import ACME, DOMAIN, acme_authority
from tests.e2e.testbed.daemons import Daemon
from tests.e2e.testbed.parts import program

_TREE = Path(__file__).parents[3]
_LOOPBACK = "127.0.0.1"
_PATIENCE = 20.0  # seconds


def start(bed: Bed) -> str:
    """Start it among the programs of *bed*, and return its URL.

    Raises:
        BedError: it does not start; its STUN port 3478 can't be chosen.
    """
    keeper, control, acme = free_ports(3)
    words = ["--domain", DOMAIN, "--port", str(keeper)]
    tailnet = bed.daemons.start(
        "tailnet", [sys.executable, "-m", "tests.e2e.testbed.tailnet", *words], env={"PYTHONPATH": str(_TREE)}
    )
    _wait(bed, tailnet, f"http://{_LOOPBACK}:{keeper}/")
    trusted = acme_authority(bed.paths)
    flags: Mapping[str, Word] = {
        "listen": f"{_LOOPBACK}:{control}",
        "keeper": f"http://{_LOOPBACK}:{keeper}",
        "domain": DOMAIN,
        "acme-listen": f"{_LOOPBACK}:{acme}",
        "acme": f"https://{_LOOPBACK}:{acme}",  # nobody asks for certificates
        "certificate": trusted.certificate(ACME),
        "key": trusted.key(ACME),
    }
    argv: list[Word] = [program(bed.paths, "control"), *(f"-{name}={value}" for name, value in flags.items())]
    url = f"http://{_LOOPBACK}:{control}"
    _wait(bed, bed.daemons.start("control", argv), f"{url}/key")
    return url


def free_ports(count: int) -> list[int]:
    """Choose ports of loopback that nothing listens on now."""
    sockets = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    numbers = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return numbers


def _wait(bed: Bed, daemon: Daemon, url: str) -> None:
    bed.daemons.wait_for(daemon, lambda: _answers(url), _PATIENCE, f"an answer from {url}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as answer:
        answer.close()
        return True  # a refusal is an answer
    except OSError:
        return False
