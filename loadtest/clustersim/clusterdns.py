"""The DNS server of the simulated cluster: a CoreDNS that knows only the stub domains in its Corefile.

It forwards questions about names in a stub domain to the nameserver, which is a program outside the cluster. For all
other names it answers NXDOMAIN.
"""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncio_dgram
from asyncio_dgram.aio import DatagramServer
from dnslib import RCODE, DNSError, DNSRecord

from clustersim.furniture import COREDNS
from clustersim.objects import CONFIGMAP, name_of, namespace_of
from clustersim.store import Store

_BLOCK = re.compile(r"^(?P<zones>[^\s#{}][^{}\n]*)\{(?P<body>(?:[^{}]|\{[^{}]*\})*)\}", re.MULTILINE)
_FORWARD = re.compile(r"^\s*forward\s+\.\s+\S+", re.MULTILINE)
_SECONDS = 1.0
_NO_ANSWER = (DNSError, EOFError, OSError, TimeoutError, asyncio_dgram.TransportClosed)
"""Errors after which we send no answer, so that the client asks again."""


class ClusterDNS:
    """Answers the questions of Pods. The nameserver listens at *nameserver_port* of loopback."""

    def __init__(self, store: Store, nameserver_port: int) -> None:
        self._store = store
        self._port = nameserver_port

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator[None]:
        """Answer questions over UDP and TCP during the block."""
        stream = await asyncio_dgram.bind((host, port))
        try:
            async with await asyncio.start_server(self._answer_stream, host, port), asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._answer_all(stream, tasks))
                yield
                serving.cancel()
        finally:
            stream.close()

    async def _answer_all(self, stream: DatagramServer, tasks: asyncio.TaskGroup) -> None:
        while True:
            packet, client = await stream.recv()
            tasks.create_task(self._answer(stream, packet, client))

    async def _answer(self, stream: DatagramServer, packet: bytes, client: Any) -> None:
        with suppress(*_NO_ANSWER):
            await stream.send(await self._reply(packet), client)

    async def _answer_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question over TCP."""
        with suppress(*_NO_ANSWER):
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            reply = await self._reply(await reader.readexactly(length))
            writer.write(struct.pack("!H", len(reply)) + reply)
            await writer.drain()
        writer.close()

    async def _reply(self, packet: bytes) -> bytes:
        query = DNSRecord.parse(packet)
        if self._forwards(str(query.q.qname).lower().rstrip(".")):
            return await self._asked(packet)
        answer = query.reply()
        answer.header.rcode = RCODE.NXDOMAIN
        packed: bytes = answer.pack()
        return packed

    async def _asked(self, packet: bytes) -> bytes:
        async with asyncio.timeout(_SECONDS):
            stream = await asyncio_dgram.connect(("127.0.0.1", self._port))
            try:
                await stream.send(packet)
                reply: bytes = (await stream.recv())[0]
                return reply
            finally:
                stream.close()

    def _forwards(self, qname: str) -> bool:
        """Tell whether *qname* is in a stub domain."""
        found = self._store.find(CONFIGMAP, namespace_of(COREDNS), name_of(COREDNS))
        corefile = (found or {}).get("data", {}).get("Corefile", "")
        return any(qname == zone or qname.endswith(f".{zone}") for zone in stub_domains(corefile))


def stub_domains(corefile: str) -> Iterator[str]:
    """Yield each zone in *corefile* whose server block forwards queries, except the root zone."""
    for block in _BLOCK.finditer(corefile):
        if _FORWARD.search(block["body"]):
            zones = (zone.removeprefix("dns://").partition(":")[0].rstrip(".") for zone in block["zones"].split())
            yield from (zone.lower() for zone in zones if zone)
