"""Answers every TCP connection and every UDP datagram on a port with the same words.

It is a program of its own, which runs inside a machine of the bed. Its command line has the port and the words.
"""

import asyncio
import socket
import sys
from typing import cast


class Datagrams(asyncio.DatagramProtocol):
    """A UDP server that answers each datagram with *words*."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport for answers."""
        self._transport = cast("asyncio.DatagramTransport", transport)  # no DatagramTransport in Python 3.11

    def datagram_received(self, _data: bytes, sender: tuple[str, int]) -> None:
        """Answer the datagram."""
        if self._transport:
            self._transport.sendto(self._words, sender)


async def greet(port: int, words: bytes) -> None:
    """Answer with *words* on the TCP port and the UDP port *port* until the process ends."""

    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        writer.close()

    everywhere = ("::", port)  # IPv4 too
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(everywhere)
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: Datagrams(words), sock=datagrams)
    listener = socket.create_server(everywhere, family=socket.AF_INET6, dualstack_ipv6=True)
    server = await asyncio.start_server(connected, sock=listener)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(greet(int(sys.argv[1]), sys.argv[2].encode()))
