"""Tests of the TCP server: framing, pipelining and limits."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import pytest
from tsnameserver.sockets import Endpoint
from tsnameserver.tcp import TcpLimits
from tsnameserver.zone import Zone

from tests.nameserver.conftest import Running, running_server
from tests.nameserver.samples import parsed, texts, wire

LOOPBACK = Endpoint("127.0.0.1", 0)
QUERY = wire("db.tail1234.ts.net")


def framed(query: bytes, ident: int = 0) -> bytes:
    return len(query).to_bytes(2, "big") + ident.to_bytes(2, "big") + query[2:]


@asynccontextmanager
async def connected(server: Running) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def read_response(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))


async def test_pipelined_queries_are_all_answered(server: Running) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"".join(framed(QUERY, ident) for ident in range(100)))
        responses = [await read_response(reader) for _ in range(100)]
    assert {int.from_bytes(response[:2], "big") for response in responses} == set(range(100))
    assert texts(parsed(responses[-1])) == ["100.64.0.1"]


async def test_a_query_may_come_byte_by_byte(server: Running) -> None:
    async with connected(server) as (reader, writer):
        for byte in framed(QUERY):
            writer.write(bytes([byte]))
            await writer.drain()
        assert texts(parsed(await read_response(reader))) == ["100.64.0.1"]


async def test_a_refused_transfer_leaves_the_connection_usable(server: Running) -> None:
    async with connected(server) as (reader, writer):
        writer.write(framed(wire("ts.net", "SOA")[:-4] + b"\0\xfc\0\1"))
        assert (await read_response(reader))[3] & 0xF == 5
        writer.write(framed(QUERY))
        assert texts(parsed(await read_response(reader))) == ["100.64.0.1"]


async def test_an_empty_message_ends_the_connection(server: Running) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"\0\0" + framed(QUERY))
        assert await reader.read() == b""


async def test_the_largest_message_is_read_whole(server: Running) -> None:
    async with connected(server) as (reader, writer):
        writer.write(framed(QUERY + bytes(65535 - len(QUERY))) + framed(QUERY))
        assert (await read_response(reader))[3] & 0xF == 1
        assert texts(parsed(await read_response(reader))) == ["100.64.0.1"]


async def test_a_silent_connection_is_closed() -> None:
    async with running_server(LOOPBACK, TcpLimits(idle=0.05)) as server, connected(server) as (reader, _):
        assert await reader.read() == b""


async def test_a_half_sent_query_is_given_up() -> None:
    async with running_server(LOOPBACK, TcpLimits(read=0.05)) as server, connected(server) as (reader, writer):
        writer.write(framed(QUERY)[:-1])
        assert await reader.read() == b""


async def send_for_ever(client: socket.socket, data: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(client, data)


async def test_a_client_that_does_not_read_is_given_up() -> None:
    loop = asyncio.get_running_loop()
    async with running_server(LOOPBACK, TcpLimits(write=0.05)) as server, asyncio.timeout(30):
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, (server.host, server.port))
            with pytest.raises(ConnectionError):
                await send_for_ever(client, framed(wire("many.tail1234.ts.net")) * 1000)


async def test_past_the_limit_the_most_silent_connection_goes() -> None:
    async with running_server(LOOPBACK, TcpLimits(connections=2)) as server, connected(server) as (first, writer):
        writer.write(framed(QUERY))
        await read_response(first)
        async with connected(server) as (second, second_writer):
            second_writer.write(framed(QUERY))
            await read_response(second)
            writer.write(framed(QUERY))
            await read_response(first)
            async with connected(server) as (third, third_writer):
                third_writer.write(framed(QUERY))
                await read_response(third)
                assert await second.read() == b""
                writer.write(framed(QUERY))
                assert await read_response(first)


async def exchange(ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    reader, writer = ends
    writer.write(framed(QUERY))
    return await read_response(reader)


@asynccontextmanager
async def connected_from(
    host: str, server: Running
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(server.host, server.port, local_addr=(host, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_a_client_past_its_share_loses_its_own_most_silent_connection() -> None:
    async with (
        running_server(LOOPBACK, TcpLimits(client_connections=2)) as server,
        asyncio.timeout(30),
        connected_from("127.0.0.9", server) as other,
        connected_from("127.0.0.1", server) as first,
        connected_from("127.0.0.1", server) as second,
    ):
        for each in (other, first, second, first):
            await exchange(each)
        async with connected_from("127.0.0.1", server) as third:
            await exchange(third)
            assert await second[0].read() == b""
            for each in (other, first, third):
                assert texts(parsed(await exchange(each))) == ["100.64.0.1"]
        assert (server.tcp.accepted, server.tcp.evicted) == (4, 1)


async def test_connections_that_come_at_once_stay_within_the_limit() -> None:
    async with running_server(LOOPBACK, TcpLimits(connections=3)) as server, AsyncExitStack() as stack:
        ends = [await stack.enter_async_context(connected(server)) for _ in range(20)]
        assert texts(parsed(await exchange(ends[-1]))) == ["100.64.0.1"]
        assert (server.tcp.connections, server.tcp.accepted, server.tcp.evicted) == (3, 20, 17)


async def test_after_its_last_query_a_connection_is_closed_with_every_answer_sent() -> None:
    async with running_server(LOOPBACK, TcpLimits(queries=10)) as server, connected(server) as (reader, writer):
        writer.write(b"".join(framed(QUERY, ident) for ident in range(1000)))
        answers = [int.from_bytes((await read_response(reader))[:2], "big") for _ in range(10)]
        assert answers == list(range(10))
        assert await reader.read() == b""
        assert sum(server.tcp.counts.requests().values()) == 10


async def test_idle_connections_do_not_stop_the_next_client(server: Running) -> None:
    idle = [await asyncio.open_connection(server.host, server.port) for _ in range(500)]
    async with connected(server) as (reader, writer):
        writer.write(framed(QUERY))
        assert texts(parsed(await read_response(reader))) == ["100.64.0.1"]
    for _, each in idle:
        each.close()


async def test_a_query_that_fails_is_servfail_and_counted(server: Running) -> None:
    server.serving.zone = cast("Zone", None)
    async with connected(server) as (reader, writer):
        writer.write(framed(QUERY))
        assert (await read_response(reader))[3] & 0xF == 2
    assert server.tcp.failures == 1
