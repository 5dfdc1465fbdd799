"""The report over HTTP: who gets it, and from whom."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from tsoperator.status.parts import StatusReport
from tsoperator.status.server import StatusServer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def report(since: datetime) -> StatusReport:
    return StatusReport(json.dumps({"leadingSince": since.isoformat()}).encode(), "4f2a")


def server(listen: str = "127.0.0.1:0") -> StatusServer:
    return StatusServer(listen, report, lambda: "operator-b", lambda: NOW)


async def ask(address: str, path: str = "/status", **headers: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}", headers=headers) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.content_type == "application/json" else text


async def test_only_the_pod_that_leads_has_a_report_and_others_name_it() -> None:
    standby = 503, {"error": "this Pod does not lead; ask operator-b", "leader": "operator-b"}
    async with (status := server()) as address:
        assert await ask(address) == standby
        leading = asyncio.create_task(status.lead())
        await asyncio.sleep(0)
        assert await ask(address) == (200, {"leadingSince": NOW.isoformat()})
        leading.cancel()
        await asyncio.wait([leading])
        assert await ask(address) == standby


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
async def test_a_request_under_another_name_is_refused(host: str, status: int) -> None:
    async with server() as address:
        assert (await ask(address, Host=host))[0] == status


async def test_a_port_that_another_process_has_is_only_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with server() as address, server(address) as other:
        assert other == ""
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert f"cannot serve the status on {address}: Address already in use" in record.getMessage()
