"""Tests of the real process: what it says, serves and survives, and how it ends."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
import dns.asyncquery
import dns.message
import dns.rcode
import pytest
from tsnameserver.__main__ import JsonFormatter
from tsnameserver.records import Records, render

from tests.nameserver.api_server import api_server
from tests.nameserver.samples import DOCUMENT, make_query, texts

BASE = ("--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
DB = "db.tail1234.ts.net"


class Process:
    """A running nameserver."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []
        self.port = self.health = self.metrics = 0

    async def says(self, what: str) -> str:
        """Wait for a line with *what*."""
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode():
            self.log.append(line)
            if what in line:
                return line
        raise AssertionError(f"it never said {what!r}: {self.log}")

    async def ask(self, name: str, qtype: str = "A", *, tcp: bool = False) -> dns.message.Message:
        """Send it a query."""
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return await send(make_query(name, qtype), "127.0.0.1", port=self.port, timeout=3)

    async def status(self, path: str) -> int:
        """Return the HTTP status of a probe."""
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{self.health}{path}") as response:
            return response.status

    async def page(self, port: int, path: str) -> str:
        """Return what it says by HTTP."""
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{path}") as response:
            return await response.text()

    async def stop(self, signal_: int = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        self.process.send_signal(signal_)
        async with asyncio.timeout(1):
            return await self.process.wait()


async def spawned(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tsnameserver",
        *arguments,
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def nameserver(records: Path, *arguments: str) -> AsyncIterator[Process]:
    running = Process(await spawned(*BASE, "--records", str(records), *arguments))
    try:
        async with asyncio.timeout(30):
            ports = re.findall(r"127\.0\.0\.1:(\d+)", await running.says("listening on"))
            running.port, running.health, running.metrics = map(int, ports)
            yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
        await running.process.communicate()


def write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.json"
    path.write_text(DOCUMENT)
    return path


async def test_it_answers_by_udp_and_tcp(records: Path) -> None:
    async with nameserver(records) as running:
        await running.says("serving 7 names, as the file has them")
        for tcp in (False, True):
            assert texts(await running.ask(DB, tcp=tcp)) == ["100.64.0.1"]
            assert texts(await running.ask(DB, "AAAA", tcp=tcp)) == ["2001:db8::1"]
            assert (await running.ask("example.org", tcp=tcp)).rcode() == dns.rcode.REFUSED
        assert [await running.status(path) for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize("text", [None, "", "{"])
async def test_without_good_records_it_is_servfail_and_not_ready_until_they_come(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "records.json"
    write(path, text)
    async with nameserver(path) as running:
        await running.says("no whole set of records from the file")
        assert (await running.ask(DB)).rcode() == dns.rcode.SERVFAIL
        assert [await running.status(path) for path in ("/healthz", "/readyz")] == [200, 503]
        write(path, DOCUMENT)
        await running.says("serving 7 names")
        assert texts(await running.ask(DB)) == ["100.64.0.1"]
        assert await running.status("/readyz") == 200


async def test_a_broken_file_keeps_the_last_records(records: Path) -> None:
    async with nameserver(records) as running:
        await running.says("serving 7 names")
        for broken in ("{", '{"version":"v1beta1","ip4":{}}'):
            write(records, broken)
            await running.says("records.json is ignored")
            assert texts(await running.ask(DB)) == ["100.64.0.1"]
        write(records, None)
        assert texts(await running.ask(DB)) == ["100.64.0.1"]
        assert await running.status("/readyz") == 200


async def test_the_api_server_is_followed_and_the_file_left(records: Path, tmp_path: Path) -> None:
    async with api_server("tailscale") as api:
        api.write("dnsrecords", render(Records(ip4={DB: ["100.64.0.77"]})))
        arguments = ("--api-server", api.url, "--namespace", "tailscale", "--service-account", str(tmp_path))
        async with nameserver(records, *arguments) as running:
            await running.says("as the API server has them")
            assert texts(await running.ask(DB)) == ["100.64.0.77"]
            api.write("dnsrecords", render(Records(ip4={DB: ["100.64.0.78"]})))
            while texts(await running.ask(DB)) != ["100.64.0.78"]:
                continue


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly_within_a_second(records: Path, number: signal.Signals) -> None:
    async with nameserver(records) as running:
        await running.says("serving")
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        assert await running.stop(number) == 0
        assert await reader.read() == b""
        writer.close()


async def test_a_signal_ends_it_before_there_are_records(tmp_path: Path) -> None:
    async with nameserver(tmp_path / "none.json") as running:
        assert await running.stop() == 0


async def test_while_it_drains_it_answers_and_is_not_ready(records: Path) -> None:
    async with nameserver(records, "--drain", "1") as running:
        await running.says("serving")
        running.process.terminate()
        await running.says("stopping")
        assert await running.status("/readyz") == 503
        assert texts(await running.ask(DB)) == ["100.64.0.1"]
        assert await running.process.wait() == 0


async def test_what_it_answers_and_serves_is_counted(records: Path) -> None:
    async with nameserver(records) as running:
        await running.says("serving 7 names")
        await running.ask(DB)
        text = await running.page(running.metrics, "/metrics")
    assert f'dns_requests_total{{server="dns://127.0.0.1:{running.port}",proto="udp",family="1",type="A"}} 1\n' in text
    assert "tsnameserver_records_serial 7\n" in text


async def test_each_line_of_a_json_log_is_an_object(tmp_path: Path) -> None:
    async with nameserver(tmp_path / "none.json", "--log-format", "json") as running:
        await running.says("no whole set of records from the file")
        lines = [json.loads(line) for line in running.log]
    assert {line["level"] for line in lines} == {"info", "warning"}
    assert lines[0].keys() == {"time", "level", "logger", "message"}
    assert datetime.fromisoformat(lines[0]["time"]).tzinfo is not None


def test_an_exception_is_one_line_of_the_json_log() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("some.logger", logging.ERROR, "", 1, "on %s", ("this",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == "on this"
    assert "ValueError: two\nlines" in json.loads(line)["exception"]


async def failed(*arguments: str, **environment: str) -> tuple[int | None, str]:
    process = await spawned(*arguments, **environment)
    async with asyncio.timeout(30):
        _, stderr = await process.communicate()
    return process.returncode, stderr.decode()


async def test_a_taken_port_is_one_line() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        code, said = await failed("--listen", f"127.0.0.1:{port}")
    assert code == 1
    assert said == f"tsnameserver: can't listen on 127.0.0.1:{port} by UDP: Address already in use\n"


async def test_a_wrong_setting_is_one_line() -> None:
    assert await failed("--ttl", "soon") == (
        2,
        "tsnameserver: --ttl: 'soon': is not a whole number of seconds from 0 to 2147483647\n",
    )
    code, said = await failed(TSNAMESERVER_LISTEN="53")
    assert (code, said.count("\n"), said.split(":")[1]) == (2, 1, " TSNAMESERVER_LISTEN")
