"""A small DNS server on loopback that misbehaves on request."""

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
"""A function that gets the number of a query, from 1, and the query, and returns the answer, or None to stay silent."""


def response(query: bytes) -> dns.message.Message:
    """Return a response with AA and no records."""
    reply = dns.message.make_response(dns.message.from_wire(query))
    reply.flags |= dns.flags.AA
    return reply


def answer_well(number: int, query: bytes, address: str = ADDRESS) -> bytes | None:
    """Return the right answer: *address* for a name in the records, and NXDOMAIN for a name that dnsload has made up.

    Return None for a malformed query, which gets no answer.
    """
    del number
    try:
        reply = response(query)
    except dns.exception.DNSException:
        return None
    if not reply.question or str(reply.question[0].name).startswith("dnsload-"):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    else:
        reply.answer.append(dns.rrset.from_text(reply.question[0].name, 5, "IN", "A", address))
    return reply.to_wire()


class _Datagrams(asyncio.DatagramProtocol):
    """A UDP server that answers each query with the result of *respond*, after *delay* seconds.

    It ignores queries that don't come from the address *client*, unless that is empty.
    """

    def __init__(self, respond: Respond, delay: float, copies: int, client: str) -> None:
        self._respond = respond
        self._delay = delay
        self._copies = copies
        self._client = client
        self._count = 0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._client not in ("", addr[0]):
            return
        self._count += 1
        answer = self._respond(self._count, data)
        if answer is None:
            return
        for _ in range(self._copies):
            asyncio.get_running_loop().call_later(self._delay, self._send, answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(answer, addr)


@asynccontextmanager
async def udp_responder(
    respond: Respond = answer_well, delay: float = 0, copies: int = 1, port: int = 0, client: str = ""
) -> AsyncIterator[Target]:
    """Run a UDP server on loopback at *port*, or at a free port if *port* is 0, and yield its address.

    After *delay* seconds, it answers each query *copies* times with the result of *respond*, unless that is None.
    If *client* isn't empty, it ignores queries from other addresses.
    """
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Datagrams(respond, delay, copies, client), local_addr=("127.0.0.1", port)
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
    """A TCP server that answers ten queries at once, in reverse order.

    Only a client that pipelines queries gets answers.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.target = Target("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                queries = [await _read_query(reader) for _ in range(10)]
                writer.writelines(_framed(answer_well(0, query)) for query in reversed(queries))
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def relay_of_tens() -> AsyncIterator[Tens]:
    """Run a TCP server that behaves as in `Tens`."""
    tens = Tens()
    async with await asyncio.start_server(tens.serve, "127.0.0.1", 0) as server:
        tens.target = Target(*server.sockets[0].getsockname())
        yield tens


@asynccontextmanager
async def tcp_responder(
    respond: Respond = answer_well,
    close_after: int | None = None,
    connected: Callable[[int], object] = id,
    client: str = "",
) -> AsyncIterator[Target]:
    """Run a server that answers by TCP. A connection ends after *close_after* queries.

    If *client* isn't empty, the server closes connections from other addresses without an answer. At each new
    connection, the server calls *connected* with the number of queries that it has received so far.
    """
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        if client not in ("", writer.get_extra_info("peername")[0]):
            writer.close()
            return
        connected(count)
        answered = 0
        try:
            while close_after is None or answered < close_after:
                query = await _read_query(reader)
                count, answered = count + 1, answered + 1
                writer.write(_framed(respond(count, query)))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Target(*server.sockets[0].getsockname())
