"""A small DNS server on loopback that can be told to misbehave."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
from dnsload.targets import Target

ADDRESS = "100.64.0.1"
Respond = Callable[[int, bytes], bytes | None]
"""The number of a query, from 1 on, and the query; gives the answer."""


def response(query: bytes) -> dns.message.Message:
    """Return a response with AA and no records."""
    made = dns.message.make_response(dns.message.from_wire(query))
    made.flags |= dns.flags.AA
    return made


def well(number: int, query: bytes, address: str = ADDRESS) -> bytes | None:
    """Answer ADDRESS for every name, NXDOMAIN for those that dnsload made up, and nothing to what is malformed."""
    del number
    try:
        made = response(query)
    except dns.exception.DNSException:
        return None
    if not made.question or str(made.question[0].name).startswith("dnsload-"):
        made.set_rcode(dns.rcode.NXDOMAIN)
    else:
        made.answer.append(dns.rrset.from_text(made.question[0].name, 5, "IN", "A", address))
    return made.to_wire()


class Datagrams(asyncio.DatagramProtocol):
    """Answers each query as it is told, *delay* seconds later."""

    def __init__(self, respond: Respond, delay: float, copies: int) -> None:
        self.respond = respond
        self.delay = delay
        self.copies = copies
        self.count = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.count += 1
        answer = self.respond(self.count, data)
        if answer is None:
            return
        for _ in range(self.copies):
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self._send, answer, addr)
            else:
                self._send(answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if not self.transport.is_closing():
            self.transport.sendto(answer, addr)


@asynccontextmanager
async def udp_responder(respond: Respond = well, delay: float = 0, copies: int = 1) -> AsyncIterator[Target]:
    """Answer by UDP."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Datagrams(respond, delay, copies), local_addr=("127.0.0.1", 0)
    )
    try:
        yield Target(*transport.get_extra_info("sockname"))
    finally:
        transport.close()
        await asyncio.sleep(0)


async def _read_query(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack("!H", await reader.readexactly(2))
    return await reader.readexactly(length)


def _framed(answer: bytes | None) -> bytes:
    return b"" if answer is None else struct.pack("!H", len(answer)) + answer


class Tens:
    """Answers ten queries of a connection at a time, the last first: only who pipelines gets any."""

    def __init__(self) -> None:
        self.connections = 0
        self.target = Target("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                queries = [await _read_query(reader) for _ in range(10)]
                writer.writelines(_framed(well(0, query)) for query in reversed(queries))
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def relay_of_tens() -> AsyncIterator[Tens]:
    """Serve by Tens."""
    tens = Tens()
    async with await asyncio.start_server(tens.serve, "127.0.0.1", 0) as server:
        tens.target = Target(*server.sockets[0].getsockname())
        yield tens


@asynccontextmanager
async def tcp_responder(respond: Respond = well, close_after: int | None = None) -> AsyncIterator[Target]:
    """Answer by TCP; a connection ends after so many queries."""
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        served = 0
        try:
            while close_after is None or served < close_after:
                query = await _read_query(reader)
                count, served = count + 1, served + 1
                writer.write(_framed(respond(count, query)))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Target(*server.sockets[0].getsockname())
