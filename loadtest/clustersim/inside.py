"""Runs a Python module as if it were in a Pod: its DNS questions to cluster IPs reach the nameserver.

``python -m clustersim.inside MODULE ARGUMENT...`` finds the port of the nameserver in the environment (`VARIABLE`).
"""

import asyncio
import os
import runpy
import sys
from functools import partial
from ipaddress import ip_address
from typing import Any

import asyncio_dgram

from clustersim.services import NETWORKS

VARIABLE = "CLUSTERSIM_NAMESERVER_PORT"
_DNS = 53


def place(host: str, port: int, nameserver: int) -> tuple[str, int]:
    """Return the host and port to connect to in place of *host* and *port*.

    For the DNS port of any cluster IP, it is the port *nameserver* of loopback. Otherwise, *host* and *port* stay the
    same.
    """
    is_inside = port == _DNS and any(ip_address(host) in each for each in NETWORKS.values())
    return ("127.0.0.1", nameserver) if is_inside else (host, port)


def main() -> None:
    """Run the module that the command line names."""
    found = partial(place, nameserver=int(os.environ[VARIABLE]))
    by_udp, by_tcp = asyncio_dgram.connect, asyncio.open_connection

    async def connect(address: tuple[str, int]) -> Any:
        return await by_udp(found(*address))

    async def open_connection(host: str, port: int, **options: Any) -> Any:
        return await by_tcp(*found(host, port), **options)

    asyncio_dgram.connect, asyncio.open_connection = connect, open_connection  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
