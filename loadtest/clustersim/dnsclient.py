"""A DNS client that asks one server, over UDP and TCP."""

import asyncio
import struct
from dataclasses import dataclass

import asyncio_dgram
from dnslib import QTYPE, RCODE, DNSError, DNSRecord

ANSWER_SECONDS = 0.5
"""The seconds for which the client waits for an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer: the name of the rcode, and the addresses. `NONE` stands for no answer."""

    rcode: str
    addresses: frozenset[str] = frozenset()

    def gives(self, addresses: frozenset[str]) -> bool:
        """Tell whether the answer is exactly *addresses*."""
        return self.rcode == "NOERROR" and self.addresses == addresses


NONE = Answer("no answer")


async def ask_udp(port: int, qname: str, qtype: str) -> Answer:
    """Ask the DNS server at *port* of loopback for *qname* and *qtype* over UDP, without a second try."""
    query = DNSRecord.question(qname, qtype)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            stream = await asyncio_dgram.connect(("127.0.0.1", port))
            try:
                await stream.send(query.pack())
                reply, _ = await stream.recv()
            finally:
                stream.close()
    except (OSError, TimeoutError, asyncio_dgram.TransportClosed):
        return NONE
    return _read(query, reply)


async def ask_tcp(port: int, qname: str, qtype: str) -> Answer:
    """Ask the DNS server at *port* of loopback for *qname* and *qtype* over a new TCP connection."""
    query = DNSRecord.question(qname, qtype)
    message = query.pack()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(struct.pack("!H", len(message)) + message)
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                reply = await reader.readexactly(length)
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return NONE
    return _read(query, reply)


def _read(query: DNSRecord, reply: bytes) -> Answer:
    """Return the answer in *reply*, or `NONE` if *reply* doesn't answer *query*."""
    try:
        record = DNSRecord.parse(reply)
    except DNSError:
        return NONE
    if record.header.id != query.header.id:
        return NONE
    wanted = query.q.qtype
    return Answer(
        RCODE.get(record.header.rcode), frozenset(str(rr.rdata) for rr in record.rr if QTYPE[rr.rtype] == QTYPE[wanted])
    )
