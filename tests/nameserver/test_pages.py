"""Tests of pages over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tsnameserver.pages import Page, Pages, probe_pages, serving_pages
from tsnameserver.sockets import Endpoint, bind

PAGES: Pages = {
    "/greeting": lambda: Page("hello\n"),
    "/broken": lambda: Page(f"{1 // 0}"),
    **probe_pages(healthy=lambda: False, ready=lambda: True),
}
GREETING = b"GET /greeting HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def pages_port(seconds: float) -> AsyncIterator[int]:
    """Serve PAGES at a port of loopback, to clients that take no more than *seconds*."""
    listener = bind([], Endpoint("127.0.0.1", 0)).health
    assert listener is not None
    async with serving_pages(listener, PAGES, seconds=seconds):
        yield listener.getsockname()[1]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with pages_port(30) as port:
        yield port


async def answer_to(port: int, request: bytes) -> str:
    """Return all that comes back for *request* until the server closes."""
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
        (b"GET /other HTTP/1.1\r\n\r\n", 404, "there are /greeting, /broken, /healthz, /readyz\n"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 503, "not working\n"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", 200, "ready\n"),
        (b"\x16\x03\x01\xff\r\n\r\n", 400, "not a request\n"),
        (b"GET /" + b"a" * 20_000, 400, "not a request\n"),
    ],
    ids=lambda given: given[:20] if isinstance(given, bytes) else str(given),
)
async def test_a_request_is_answered_once_and_the_connection_ends(
    port: int, request_: bytes, status: int, body: str
) -> None:
    head, _, rest = (await answer_to(port, request_)).partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert {"Connection: close", "Content-Type: text/plain; charset=utf-8"} <= {*head.splitlines()}
    assert rest == body


async def test_a_page_that_fails_is_logged_and_the_next_one_is_answered(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await answer_to(port, b"GET /broken HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 500 ")
    assert "ZeroDivisionError" in caplog.text
    assert (await answer_to(port, GREETING)).endswith("hello\n")


async def test_a_silent_client_holds_up_nobody(port: int) -> None:
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    assert (await answer_to(port, GREETING)).endswith("hello\n")
    silent.close()
    await silent.wait_closed()


async def test_a_client_that_takes_too_long_is_given_up() -> None:
    async with pages_port(seconds=0.05) as port:
        assert await answer_to(port, b"GET /greeting") == ""
