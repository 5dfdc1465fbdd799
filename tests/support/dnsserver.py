"""A DNS server on loopback whose answers a test decides."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import asyncio_dgram
import dnslib

Respond = Callable[[bytes, str], bytes | None]
"""A function that returns the response to a query over ``udp`` or ``tcp``, or None to send no response."""


@dataclass(slots=True)
class DNSServer:
    """A DNS server that answers with *respond*, which a test can replace, and records the transport of each query."""

    respond: Respond
    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address and port of the server."""
        return f"127.0.0.1:{self.port}"

    def answer(self, query: bytes, transport: str) -> bytes | None:
        """Record *transport*, and return the response to *query*, or None to send no response."""
        self.asked.append(transport)
        return self.respond(query, transport)


def replying(change: Callable[[dnslib.DNSRecord], object]) -> Respond:
    """Return a function that answers each query with an empty response after *change* was applied to it."""

    def respond(query: bytes, _transport: str) -> bytes:
        response = dnslib.DNSRecord.parse(query).reply()
        change(response)
        packed: bytes = response.pack()
        return packed

    return respond


@asynccontextmanager
async def dns_server(respond: Respond) -> AsyncIterator[DNSServer]:
    """Run a DNS server on one port over UDP and TCP during the block."""
    served = DNSServer(respond)
    connections: set[asyncio.Task[None] | None] = set()

    async def serve_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        # A client that is stopped can end before its query, or before it has read the answer.
        with suppress(asyncio.IncompleteReadError, OSError):
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            if (response := served.answer(await reader.readexactly(length), "tcp")) is not None:
                writer.write(struct.pack("!H", len(response)) + response)
            await reader.read()  # until the client closes
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def serve_datagrams() -> None:
        while True:
            query, client = await datagrams.recv()
            if (response := served.answer(query, "udp")) is not None:
                await datagrams.send(response, client)

    streams = await asyncio.start_server(serve_stream, "127.0.0.1", 0)
    served.port = streams.sockets[0].getsockname()[1]
    datagrams = await asyncio_dgram.bind(("127.0.0.1", served.port))
    task = asyncio.create_task(serve_datagrams())
    try:
        async with streams:
            yield served
    finally:
        task.cancel()
        datagrams.close()
        await asyncio.gather(*filter(None, connections))
