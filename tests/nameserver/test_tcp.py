"""Tests of the TCP server's limits and errors. The conformance tests show the content of its answers."""

import asyncio
import contextlib
import errno
import itertools
import os
import resource
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, cast

import pytest
from tsnameserver.counters import Counts
from tsnameserver.sockets import Endpoint
from tsnameserver.tcp import TcpLimits, TcpServer
from tsnameserver.zone import Serving, Zone

from tests.nameserver.conformance.packets import framed, numbered
from tests.nameserver.conftest import Running, running_server
from tests.nameserver.samples import parsed, sample_zone, texts, wire
from tests.support.cluster import running, until

LOOPBACK = Endpoint("127.0.0.1", 0)
QUERY = wire("db.tail1234.ts.net")
MANY = wire("many.tail1234.ts.net")
RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that makes closing the socket reset the connection."""


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def response(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(2), "big"))

    async def ask(self) -> list[str]:
        """Send `QUERY`, and return the addresses in its answer."""
        self.writer.write(framed(QUERY))
        return texts(parsed(await self.response()))


def asked(server: Running) -> int:
    """Return the number of queries that the server has received by TCP."""
    return sum(server.tcp.counts.requests().values())


def limited(**limits: Any) -> AbstractAsyncContextManager[Running]:
    return running_server(LOOPBACK, TcpLimits(**limits))


@asynccontextmanager
async def connected(server: Running, host: str = "127.0.0.1") -> AsyncIterator[Client]:
    """Connect to *server* from the address *host*."""
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(server.host, server.port, local_addr=(host, 0))
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def lazy_client(server: Running) -> AsyncIterator[socket.socket]:
    """Yield a client of *server* from which nobody reads, so that its small buffer receives only a few answers."""
    async with asyncio.timeout(30):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (server.host, server.port))
            yield client


async def test_the_tcp_server_answers_only_a_few_queries_of_a_client_that_does_not_read() -> None:
    async with limited(write=0.05) as server:
        async with lazy_client(server) as client:
            with contextlib.suppress(ConnectionError):
                while True:
                    await asyncio.get_running_loop().sock_sendall(client, framed(MANY) * 1000)
        assert asked(server) < 250  # 170 KB, nearly all in the kernel


async def test_the_tcp_server_resets_a_connection_on_which_it_could_not_send_every_answer() -> None:
    loop = asyncio.get_running_loop()
    async with limited(write=0.05) as server, lazy_client(server) as client:
        await loop.sock_sendall(client, framed(MANY) * 400)  # the server reads all, but can't send all answers
        await until(lambda: server.tcp.accepted and not server.tcp.connections)
        await loop.sock_recv(client, 1 << 30)  # the answers that the kernel had already
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 1)


async def test_a_tcp_client_that_reads_late_gets_every_answer_in_order(server: Running) -> None:
    async with connected(server) as client:
        for ident in range(5000):
            client.writer.write(framed(numbered(MANY, ident)))
            await asyncio.sleep(0)  # let the server run for one turn of the event loop
        made = deque([0], maxlen=3)

        def has_stopped() -> bool:
            made.append(asked(server))
            return made[0] > 0 and len(set(made)) == 1

        await until(has_stopped)
        assert made[0] < 5000
        idents = [int.from_bytes((await client.response())[:2], "big") for _ in range(5000)]
        assert idents == list(range(5000))
        assert await client.ask() == ["100.64.0.1"]
        assert server.tcp.readiness.ready() == []  # the server waits for data, not for room to send


@pytest.mark.virtual_time
async def test_the_time_limit_of_a_tcp_connection_starts_again_with_every_answer() -> None:
    half, rest = framed(QUERY)[:9], framed(QUERY)[9:]
    async with (
        limited(idle=2, read=2) as server,
        connected(server) as whole,
        connected(server) as cut,
    ):
        cut.writer.write(half)
        for _ in range(3):
            await asyncio.sleep(1.5)
            cut.writer.write(rest + half)
            assert await cut.response()
            assert await whole.ask() == ["100.64.0.1"]


async def test_the_tcp_server_closes_a_silent_connection_in_time_while_others_come_and_go() -> None:
    async with limited(idle=0.2) as server, connected(server) as silent, asyncio.timeout(10):
        ended = asyncio.create_task(silent.reader.read())
        while not ended.done():
            async with connected(server) as other:
                assert await other.ask() == ["100.64.0.1"]


@pytest.mark.parametrize(
    "limits", [{"read": 0.1}, {"queries": 1, "close": 0.05}], ids=["for the rest of a query", "after its last answer"]
)
async def test_a_tcp_client_that_sends_single_bytes_slowly_gets_no_more_time_than_others(
    limits: dict[str, float],
) -> None:
    async with limited(idle=60, **limits) as server, connected(server) as client:
        assert await client.ask() == ["100.64.0.1"]
        client.writer.write(b"\xff\xff")

        def is_closed() -> bool:
            client.writer.write(b"x")
            return not server.tcp.connections

        await until(is_closed)


async def test_the_tcp_server_answers_other_clients_after_a_dropped_client_reads_again() -> None:
    async with limited(write=0.05, close=30) as server:
        async with connected(server) as client:
            client.writer.write(framed(MANY) * 20_000)
            await until(lambda: server.tcp.accepted and not server.tcp.connections)
            with contextlib.suppress(ConnectionError):
                while await client.reader.read(1 << 20):
                    continue
        async with connected(server) as client:
            assert await client.ask() == ["100.64.0.1"]


@pytest.mark.parametrize(
    ("limits", "gone"),
    [({"connections": 3}, "other"), ({"connections": 4, "client_connections": 2}, "second")],
    ids=["of all", "of its client"],
)
async def test_with_too_many_connections_the_tcp_server_closes_the_one_that_was_silent_longest(
    limits: dict[str, int], gone: str
) -> None:
    async with (
        limited(**limits) as server,
        connected(server) as first,
        connected(server, "127.0.0.9") as other,
        connected(server) as second,
    ):
        clients = {"other": other, "second": second, "first": first}
        for each in clients.values():
            await each.ask()
        async with connected(server) as third:
            await third.ask()
            assert await clients.pop(gone).reader.read() == b""
            assert [await each.ask() for each in (*clients.values(), third)] == [["100.64.0.1"]] * 3
        assert (server.tcp.accepted, server.tcp.evicted) == (4, 1)


async def test_tcp_connections_that_arrive_together_do_not_exceed_the_limit() -> None:
    async with limited(connections=3) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(20)]
        assert await clients[-1].ask() == ["100.64.0.1"]
        assert (server.tcp.connections, server.tcp.accepted, server.tcp.evicted) == (3, 20, 17)


async def most_in_a_turn(count: Callable[[], int]) -> int:
    """Return the greatest increase of *count* in one of ten turns of the event loop."""
    counts = [count()]
    for _ in range(10):
        await asyncio.sleep(0)
        counts.append(count())
    return max(after - before for before, after in itertools.pairwise(counts))


async def test_the_tcp_server_accepts_only_some_waiting_connections_in_one_turn_of_the_event_loop() -> None:
    async with limited(turn=0) as server, AsyncExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection((server.host, server.port)))
        assert await most_in_a_turn(lambda: server.tcp.accepted) == 16


@contextmanager
def flooded(server: Running) -> Iterator[None]:
    """Make 200 connections from one client to *server*, each with 400 queries that wait for their answers."""
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = socket.create_connection((server.host, server.port), source_address=("127.0.0.2", 0))
            stack.enter_context(client).send(framed(QUERY) * 400)
        yield


async def test_the_tcp_server_answers_only_some_waiting_queries_in_one_turn_of_the_event_loop() -> None:
    async with limited(turn=0) as server:
        with flooded(server):
            await until(lambda: asked(server))
            assert await most_in_a_turn(lambda: asked(server)) == 64


async def test_a_tcp_client_with_many_connections_delays_no_other_client(server: Running) -> None:
    with flooded(server):
        async with connected(server, "127.0.0.9") as other:
            assert await other.ask() == ["100.64.0.1"]
            assert asked(server) < 10_000


@pytest.mark.parametrize("limit", ["connections", "client_connections"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("left", [b"", framed(QUERY)[:-1]], ids=["between queries", "half-way"])
async def test_a_tcp_connection_that_has_ended_no_longer_counts_towards_the_limit(
    limit: str, left: bytes, reset: bool
) -> None:
    async with limited(**{limit: 1}) as server:
        for _ in range(3):
            async with connected(server, "127.0.0.9") as client:
                assert await client.ask() == ["100.64.0.1"]
                client.writer.write(left)
                if reset:
                    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            await until(lambda: not server.tcp.connections)
        assert (server.tcp.accepted, server.tcp.evicted, server.tcp.failures) == (3, 0, 0)
        assert "127.0.0.9" not in repr(vars(server.tcp))


async def test_the_tcp_server_closes_a_connection_after_the_answers_to_the_permitted_number_of_queries() -> None:
    async with limited(queries=10, close=60) as server, connected(server) as client:
        many = (framed(numbered(QUERY, ident)) for ident in range(20_000))  # more than the server reads
        client.writer.write(b"".join(many))
        assert [(await client.response())[:2] for _ in range(10)] == [bytes((0, ident)) for ident in range(10)]
        assert await client.reader.read() == b""
        assert asked(server) == 10


async def test_the_tcp_server_sends_earlier_answers_and_closes_the_connection_at_a_message_that_gets_no_answer(
    server: Running,
) -> None:
    response = QUERY[:2] + b"\x80" + QUERY[3:]
    async with connected(server) as client, asyncio.timeout(server.tcp.limits.idle / 2):
        client.writer.write(framed(QUERY) + framed(response) + framed(QUERY))
        assert texts(parsed(await client.response())) == ["100.64.0.1"]
        assert await client.reader.read() == b""


async def test_a_tcp_query_whose_answer_raises_gets_servfail_and_the_next_query_is_answered(server: Running) -> None:
    good, server.serving.zone = server.serving.zone, cast("Zone", None)
    async with connected(server) as client:
        client.writer.write(framed(QUERY))
        assert (await client.response())[3] & 0xF == 2
        server.serving.zone = good
        assert await client.ask() == ["100.64.0.1"]
    assert server.tcp.failures == 1
    assert server.tcp.counts.responses()[2] == 1


async def test_an_exception_in_one_tcp_connection_affects_no_other_connection(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    good, server.tcp.counts = server.tcp.counts, cast("Counts", object())
    async with connected(server) as client:
        client.writer.write(framed(QUERY))
        assert await client.reader.read() == b""
    assert "tcp: a connection failed" in caplog.text
    server.tcp.counts = good
    async with connected(server) as client:
        assert await client.ask() == ["100.64.0.1"]


async def test_a_stopping_tcp_server_sends_its_answers_and_does_not_wait_for_silent_clients() -> None:
    async with AsyncExitStack() as stop:
        server = await stop.enter_async_context(limited(idle=60, read=60, write=60, close=60))
        async with connected(server) as gone:
            await gone.ask()
        async with connected(server) as reader, connected(server) as silent, asyncio.TaskGroup() as group:
            await silent.ask()
            reader.writer.write(framed(MANY) * 350)
            await until(lambda: asked(server))
            group.create_task(stop.aclose())
            assert await silent.reader.read() == b""
            assert len([await reader.response() for _ in range(350)]) == 350
            assert await reader.reader.read() == b""
            reader.writer.close()


async def test_a_stopping_tcp_server_does_not_wait_for_a_client_that_does_not_read() -> None:
    async with asyncio.timeout(10), AsyncExitStack() as stack:
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        async with limited(close=0.05) as server:
            await asyncio.get_running_loop().sock_connect(client, (server.host, server.port))
            client.send(framed(MANY) * 350)
            await until(lambda: asked(server))
    assert server.tcp.connections == 0


def test_the_kernel_sends_tcp_answers_at_once_and_forgets_answers_that_the_client_does_not_receive_in_time() -> None:
    with socket.create_server(LOOPBACK) as listener:
        TcpServer(listener, Serving(sample_zone()), TcpLimits(write=2.5))
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500


@contextmanager
def no_free_descriptors() -> Iterator[None]:
    """Prevent this process from opening further files and sockets during the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_tcp_server_accepts_connections_again_once_file_descriptors_are_free(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as waiting:
        waiting.setblocking(False)
        with no_free_descriptors():
            await asyncio.get_running_loop().sock_connect(waiting, (server.host, server.port))
            await until(lambda: len(caplog.records) > 1)
        async with connected(server) as client:
            assert await client.ask() == ["100.64.0.1"]
    assert server.tcp.accepted == 2
    first, second, *_ = [record for record in caplog.records if record.msg.startswith("tcp: accepting: ")]
    assert second.created - first.created > 0.05  # the server pauses


async def test_an_error_of_accept_that_persists_ends_the_tcp_server() -> None:
    with socket.socket() as deaf:
        deaf.bind(LOOPBACK)
        deaf.setblocking(False)
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            await TcpServer(deaf, Serving(sample_zone())).serve()


async def test_a_tcp_server_that_was_restarted_still_closes_idle_connections() -> None:
    with socket.create_server(LOOPBACK) as listener:
        listener.setblocking(False)
        server = TcpServer(listener, Serving(sample_zone()), TcpLimits(idle=0.05, close=0.01))
        for is_left in (True, False):
            async with running(server.serve()), asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                await until(lambda: server.connections)
                assert is_left or await reader.read() == b""
                writer.close()
