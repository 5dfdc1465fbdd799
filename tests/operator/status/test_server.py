"""The report over HTTP: the Pod that serves it, and the clients that are allowed to get it."""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from tsoperator.status.parts import StatusReport
from tsoperator.status.server import StatusServer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


Report = Callable[[datetime], Awaitable[StatusReport]]


async def report(since: datetime) -> StatusReport:
    return StatusReport(json.dumps({"leadingSince": since.isoformat()}).encode(), "4f2a")


def server(listen: str = "127.0.0.1:0", report: Report = report) -> StatusServer:
    return StatusServer(listen, report, lambda: "operator-b", lambda: NOW)


async def ask(address: str, path: str = "/status", **headers: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}", headers=headers) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.content_type == "application/json" else text


async def test_only_the_leading_pod_has_a_report_and_a_standby_names_the_leading_pod() -> None:
    standby = 503, {"error": "this Pod does not lead; ask operator-b", "leader": "operator-b"}
    async with (status := server()) as address:
        assert await ask(address) == standby
        leading = asyncio.create_task(status.lead())
        await asyncio.sleep(0)
        assert await ask(address) == (200, {"leadingSince": NOW.isoformat()})
        leading.cancel()
        await asyncio.wait([leading])
        assert await ask(address) == standby


async def test_a_waiting_request_is_refused_when_the_pod_stops_leading() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(since: datetime) -> StatusReport:
        begun.set()
        await goes_on.wait()
        return await report(since)

    async with (status := server(report=slow)) as address:
        leading = asyncio.create_task(status.lead())
        asking = [asyncio.create_task(ask(address)) for _ in range(2)]
        await begun.wait()
        while len(status._turn._waiters or ()) < 1:  # noqa: ASYNC110 (nothing tells that the other one waits)
            await asyncio.sleep(0)
        leading.cancel()
        await asyncio.wait([leading])
        goes_on.set()
        assert sorted([(await each)[0] for each in asking]) == [200, 503]


async def test_a_report_that_the_client_has_already_is_not_sent_again() -> None:
    async with (status := server()) as address:
        leading = asyncio.create_task(status.lead())
        await asyncio.sleep(0)
        found = [(await ask(address, **{"If-None-Match": tag}))[0] for tag in ('"4f2a"', 'W/"4f2a"', '"0000"')]
        leading.cancel()
    assert found == [304, 304, 200]


@pytest.mark.parametrize(
    ("path", "type_", "begin"),
    [
        ("/", "text/html", "<!doctype html>"),
        ("/status", "text/html", "<!doctype html>"),
        ("/page.css", "text/css", ":root"),
        ("/page.js", "text/javascript", "// Shows the report"),
    ],
)
async def test_a_browser_gets_a_page_that_loads_nothing_from_elsewhere(path: str, type_: str, begin: str) -> None:
    async with server() as address, aiohttp.ClientSession() as session:
        headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        async with session.get(f"http://{address}{path}", headers=headers) as response:
            text = await response.text()
    assert (response.status, response.content_type) == (200, type_)
    assert text.startswith(begin)
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src ")
    assert not re.findall(r"https?://|innerHTML|insertAdjacentHTML|document\.write|\bon\w+=| style=", text)


@pytest.mark.parametrize("path", ["/view.py", "/page%2Fpage.js", "/..%2Fserver.py", "/page/page.js"])
async def test_the_server_of_the_report_serves_no_file_but_those_of_the_page(path: str) -> None:
    async with server() as address:
        assert (await ask(address, path))[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 503),
        ("LOCALHOST:9003", 503),
        ("127.0.0.1:9003", 503),
        ("[::1]", 503),
        ("[::1]:9003", 503),
        ("evil.example.org", 403),
        ("evil.example.org:9003", 403),
        ("127.0.0.1.example.org", 403),
        ("localhost.example.org:9003", 403),
        ("", 403),
    ],
)
async def test_a_request_for_the_report_under_a_foreign_host_name_is_refused(host: str, status: int) -> None:
    async with server() as address:
        assert (await ask(address, Host=host))[0] == status


async def test_an_impossible_host_in_the_address_of_the_report_causes_only_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with server("a..b:9003") as address:
        assert address == ""
    assert "cannot serve the status on a..b:9003: " in caplog.text


async def test_a_port_of_the_report_that_another_process_uses_causes_only_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with server() as address, server(address) as other:
        assert other == ""
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert f"cannot serve the status on {address}: Address already in use" in record.getMessage()
