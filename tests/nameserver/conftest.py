"""Servers on loopback for the nameserver's tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.tcp import TcpLimits, TcpServer
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving

from tests.nameserver.samples import sample_zone


class Running(NamedTuple):
    serving: Serving
    udp: UdpServer
    tcp: TcpServer
    host: str
    port: int


@asynccontextmanager
async def running_server(endpoint: Endpoint, limits: TcpLimits | None = None) -> AsyncIterator[Running]:
    serving = Serving(sample_zone())
    pair = bind([endpoint], None).pairs[0]
    udp, tcp = UdpServer(pair.udp, serving, compiled=False), TcpServer(pair.tcp, serving, limits)
    udp.start()
    task = asyncio.create_task(tcp.serve())
    try:
        yield Running(serving, udp, tcp, *pair.endpoint)
    finally:
        udp.stop()
        task.cancel()
        await asyncio.wait([task])
        udp.join(1)
        pair.close()


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running_server(Endpoint("127.0.0.1", 0)) as running:
        yield running
