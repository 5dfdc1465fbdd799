"""Forwards TCP connections from the machine's loopback into a network namespace.

By this program, a kubeconfig works on the machine itself, although the machine has no network connection to the
cluster. The program runs inside the namespace. Its listening socket was made outside, and is its file descriptor 3.
"""

import asyncio
import socket
import sys

DESCRIPTOR = 3
CHUNK = 1 << 16  # bytes


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy the bytes of one direction of a connection until its end, and then close the writing side."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except ConnectionError:  # the connection of one side has broken, so both sides are closed
        writer.transport.abort()


async def relay(listener: socket.socket, host: str, port: int) -> None:
    """Forward each connection of *listener* to *host* and *port* until the process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(host, port)
        except OSError:  # the server can't be reached, so the client's connection is closed
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(carry(reader, inner_writer))
                directions.create_task(carry(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()

    server = await asyncio.start_server(connected, sock=listener)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(socket.socket(fileno=DESCRIPTOR), sys.argv[1], int(sys.argv[2])))
