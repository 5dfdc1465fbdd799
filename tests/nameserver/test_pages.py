"""Tests of the HTTP pages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tsnameserver.pages import Page, PageLimits, Pages, probe_pages, serving_pages
from tsnameserver.sockets import Endpoint, bind

PAGES: Pages = {
    "/greeting": lambda: Page("hello\n"),
    "/endless": lambda: Page("x" * 10_000_000),
    "/broken": lambda: Page(f"{1 // 0}"),
    **probe_pages(healthy=lambda: False, ready=lambda: True),
}
GREETING = b"GET /greeting HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def pages_port(limits: PageLimits) -> AsyncIterator[int]:
    """Serve PAGES on a port of loopback during the block, and yield the port."""
    listener = bind([], Endpoint("127.0.0.1", 0)).health
    assert listener is not None
    async with serving_pages(listener, PAGES, limits):
        yield listener.getsockname()[1]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with pages_port(PageLimits(seconds=30)) as port:
        yield port


async def answer_to(port: int, request: bytes) -> str:
    """Return all bytes that the server sends after *request* until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(30):
            return (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (GREETING, 200, "hello\n"),
        (b"GET /greeting?verbose=1 HTTP/1.0\r\n\r\n", 200, "hello\n"),
        (b"HEAD /greeting HTTP/1.1\r\n\r\n", 200, ""),
        (b"POST /greeting HTTP/1.1\r\n\r\n", 405, "only GET and HEAD\n"),
        (b"GET /other HTTP/1.1\r\n\r\n", 404, "there are /greeting, /endless, /broken, /healthz, /readyz\n"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 503, "not working\n"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", 200, "ready\n"),
        (b"\x16\x03\x01\xff\r\n\r\n", 400, "not a request\n"),
        (b"GET /" + b"a" * 20_000, 400, "not a request\n"),
    ],
    ids=lambda given: given[:20] if isinstance(given, bytes) else str(given),
)
async def test_the_http_server_closes_a_connection_after_one_request(
    port: int, request_: bytes, status: int, body: str
) -> None:
    head, _, rest = (await answer_to(port, request_)).partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert {"Connection: close", "Content-Type: text/plain; charset=utf-8"} <= {*head.splitlines()}
    assert rest == body


async def test_an_exception_in_an_http_page_is_logged_and_the_next_request_is_answered(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await answer_to(port, b"GET /broken HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 500 ")
    assert "ZeroDivisionError" in caplog.text
    assert (await answer_to(port, GREETING)).endswith("hello\n")


async def test_a_silent_client_of_the_http_server_delays_no_other_client(port: int) -> None:
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    assert (await answer_to(port, GREETING)).endswith("hello\n")
    silent.close()
    await silent.wait_closed()


async def test_the_http_server_closes_the_connection_of_a_client_that_sends_its_request_too_slowly() -> None:
    async with pages_port(PageLimits(seconds=0.05)) as port:
        assert await answer_to(port, b"GET /greeting") == ""


async def test_the_http_server_closes_the_connection_of_a_client_that_reads_too_slowly() -> None:
    async with pages_port(PageLimits(seconds=0.2)) as port, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /endless HTTP/1.1\r\n\r\n")
        read = 0
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1):
                read += 1
        writer.close()
    assert 0 < read < 10_000_000


async def test_with_too_many_connections_the_http_server_closes_the_oldest_one_of_the_client_with_the_most() -> None:
    async with pages_port(PageLimits(connections=4, seconds=30)) as port, AsyncExitStack() as stack:
        clients = {}
        for name, host in (("probe", "127.0.0.9"), ("oldest", "127.0.0.2"), *((f"{n}", "127.0.0.2") for n in range(4))):
            clients[name] = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
            stack.callback(clients[name][1].close)
        assert await clients["oldest"][0].read() == b""
        assert (await answer_to(port, GREETING)).endswith("hello\n")
        clients["probe"][1].write(GREETING)
        assert (await clients["probe"][0].read()).endswith(b"hello\n")
