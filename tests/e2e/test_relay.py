"""The relay carries both directions, and doesn't hide that a side has gone."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.e2e.testbed.relay import relay

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def through_relay(serve: Serve) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a server that does *serve*, by way of a relay."""
    listener = socket.create_server(("127.0.0.1", 0))
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        relaying = tasks.create_task(relay(listener, *server.sockets[0].getsockname()))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        yield reader, writer
        writer.close()
        relaying.cancel()
        server.close()


async def test_what_is_sent_arrives_and_the_answer_too() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async with through_relay(shout) as (reader, writer):
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"HELLO"


async def test_a_client_learns_that_the_server_has_gone() -> None:
    async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with through_relay(vanish) as (reader, writer):
        writer.write(b"x")
        with contextlib.suppress(ConnectionError):  # reset or closed: either tells
            assert await reader.read() == b""
