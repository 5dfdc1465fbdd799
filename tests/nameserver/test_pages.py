"""Tests of pages over HTTP."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import pytest
from tsnameserver.pages import Page, Pages, probe_pages, serving_pages
from tsnameserver.sockets import Endpoint, bind


@asynccontextmanager
async def pages_port(pages: Pages, seconds: float = 30) -> AsyncIterator[int]:
    """Serve *pages* at a port of loopback, to clients that take no more than *seconds*."""
    listener = bind([], Endpoint("127.0.0.1", 0)).health
    assert listener is not None
    async with serving_pages(listener, pages, seconds=seconds):
        yield listener.getsockname()[1]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with pages_port({"/greeting": lambda: Page("hello\n"), "/broken": lambda: Page(f"{1 // 0}")}) as port:
        yield port


@pytest.mark.parametrize("good", [True, False])
async def test_each_probe_tells_its_own_truth(good: bool) -> None:
    statuses = []
    async with (
        pages_port(probe_pages(healthy=lambda: good, ready=lambda: not good)) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        for path in ("/healthz", "/readyz", "/other"):
            async with client.get(path) as response:
                statuses.append(response.status)
    assert statuses == ([200, 503, 404] if good else [503, 200, 404])


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


class Case(NamedTuple):
    request: bytes
    status: int
    body: str


CASES = [
    Case(b"GET /greeting HTTP/1.1\r\nHost: a\r\n\r\n", 200, "hello\n"),
    Case(b"GET /greeting?verbose=1 HTTP/1.0\r\n\r\n", 200, "hello\n"),
    Case(b"HEAD /greeting HTTP/1.1\r\n\r\n", 200, ""),
    Case(b"POST /greeting HTTP/1.1\r\n\r\n", 405, "only GET and HEAD\n"),
    Case(b"GET /other HTTP/1.1\r\n\r\n", 404, "there are /greeting, /broken\n"),
    Case(b"\x16\x03\x01\xff\r\n\r\n", 400, "not a request\n"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_request_is_answered_once_and_the_connection_ends(port: int, case: Case) -> None:
    head, _, body = (await answer_to(port, case.request)).partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {case.status} ")
    assert "Connection: close" in head
    assert body == case.body


async def test_a_page_that_fails_is_logged_and_the_next_one_is_answered(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answer_to(port, b"GET /broken HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 500 ")
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.exc_info
    assert record.exc_info[0] is ZeroDivisionError
    assert (await answer_to(port, CASES[0].request)).endswith("hello\n")


async def test_a_head_without_end_is_no_request(port: int) -> None:
    assert (await answer_to(port, b"GET /" + b"a" * 20_000)).startswith("HTTP/1.1 400 ")


async def test_a_silent_client_holds_up_nobody(port: int) -> None:
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    assert (await answer_to(port, CASES[0].request)).endswith("hello\n")
    silent.close()
    await silent.wait_closed()


async def test_a_client_that_takes_too_long_is_given_up() -> None:
    async with pages_port({}, seconds=0.05) as port:
        assert await answer_to(port, b"GET /greeting") == ""
