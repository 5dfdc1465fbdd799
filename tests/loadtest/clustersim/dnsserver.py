"""A DNS server on loopback that answers as a test tells it."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncio_dgram
from clustersim.processes import free_port
from dnslib import DNSRecord

from tests.loadtest.clustersim.running import running


@asynccontextmanager
async def dns_server(respond: Callable[[DNSRecord], bytes]) -> AsyncIterator[int]:
    """Yield the port of a server that answers over UDP and TCP with what *respond* returns."""
    port = free_port()
    udp = await asyncio_dgram.bind(("127.0.0.1", port))

    async def serve_udp() -> None:
        while True:
            query, address = await udp.recv()
            await udp.send(respond(DNSRecord.parse(query)), address)

    async def serve_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        reply = respond(DNSRecord.parse(await reader.readexactly(length)))
        writer.write(struct.pack("!H", len(reply)) + reply)
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve_tcp, "127.0.0.1", port), running(serve_udp()):
        yield port
    udp.close()
