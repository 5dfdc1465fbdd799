"""Asks a DNS server one question, over UDP or TCP."""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Literal

import asyncio_dgram
import dnslib

from tsoperator.api.rules import server_address
from tsoperator.dns.probe.answers import Authority, Reply

_TRIES: Final = 2
_UNREADABLE: Final = "sent a message that is no DNS answer"
_ADDRESSES: Final = (dnslib.QTYPE.A, dnslib.QTYPE.AAAA)

Transport = Literal["udp", "tcp"]


@dataclass(frozen=True, slots=True)
class Query:
    """A DNS query for the addresses of *name*. *server* is the address of the server, with or without a port.

    The server has to answer within *timeout* seconds. Over UDP, the operator sends the query again when half of that
    time is over.
    """

    server: str
    name: str
    transport: Transport = "udp"
    ipv6: bool = False
    timeout: float = 5.0


AskServer = Callable[[Query], Awaitable[Reply]]
"""A function that sends a query and returns the reply. It raises no errors: without an answer, the reply says why."""


async def ask(query: Query) -> Reply:
    """Send *query*, and return the reply. If there is no answer, the reply has a *failure* that says why."""
    question = dnslib.DNSRecord.question(query.name, "AAAA" if query.ipv6 else "A")
    try:
        async with asyncio.timeout(query.timeout):
            return await (_by_udp if query.transport == "udp" else _by_tcp)(query, question)
    except TimeoutError:
        return Reply(failure=f"didn't answer within {query.timeout:g} s")
    except OSError as error:
        return Reply(failure=f"couldn't be reached ({os.strerror(error.errno or 0)})")
    except (EOFError, asyncio_dgram.TransportClosed):
        return Reply(failure="closed the connection without an answer")


async def _by_udp(query: Query, question: Any) -> Reply:
    """Ask by UDP, with a new socket for each try: a Service can lead all packets of one socket to a Pod that is gone.

    The answer to the first try is used even if it comes during the second try. An answer can take seconds, for instance
    if a server waits in vain for another server.
    """
    error: BaseException = TimeoutError()
    tries: set[asyncio.Task[Reply]] = set()
    try:
        for _ in range(_TRIES):
            tries.add(asyncio.create_task(_try(query, question.pack())))
            done, tries = await asyncio.wait(tries, timeout=query.timeout / _TRIES, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if (problem := each.exception()) is None:
                    return each.result()
                error = problem
        raise error
    finally:
        for each in tries:
            each.cancel()
        await asyncio.gather(*tries, return_exceptions=True)


async def _try(query: Query, question: bytes) -> Reply:
    """Send *question* once by UDP, and return the first reply to this question."""
    stream = await asyncio_dgram.connect(server_address(query.server))
    try:
        await stream.send(question)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.9 * query.timeout / _TRIES):
                return await _reply_to(stream, question)
        _ = stream.exception  # raises OSError if a host on the way has refused the packet
        return await _reply_to(stream, question)
    finally:
        stream.close()


async def _reply_to(stream: Any, question: bytes) -> Reply:
    while True:
        message, _ = await stream.recv()
        if message[:2] == question[:2]:
            return _parsed_reply(message)


async def _by_tcp(query: Query, question: Any) -> Reply:
    reader, writer = await asyncio.open_connection(*server_address(query.server))
    try:
        message = question.pack()
        writer.write(struct.pack("!H", len(message)) + message)
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        return _parsed_reply(await reader.readexactly(length))
    finally:
        writer.close()


def _parsed_reply(message: bytes) -> Reply:
    try:
        record = dnslib.DNSRecord.parse(message)
        found = (each for each in record.auth if each.rtype == dnslib.QTYPE.SOA)
        return Reply(
            dnslib.RCODE.get(record.header.rcode),
            frozenset(str(ip_address(str(each.rdata))) for each in record.rr if each.rtype in _ADDRESSES),
            next(map(_authority, found), None),
        )
    except (dnslib.DNSError, ValueError):
        return Reply(failure=_UNREADABLE)


def _authority(record: Any) -> Authority:
    soa = record.rdata
    mname, rname = (str(each).removesuffix(".").lower() for each in (soa.mname, soa.rname))
    return Authority(str(record.rname).removesuffix(".").lower(), mname, rname, soa.times[0])
