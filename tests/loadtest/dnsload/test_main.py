"""Tests of the command as people run it, against the real nameserver."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tsnameserver.records import Records, render

from tests.loadtest.dnsload.conducting import records_file
from tests.loadtest.dnsload.responder import udp_responder
from tests.support.nameserver import nameserver

RECORDS = Records(
    ip4={f"n{number}.tail1234.ts.net": [f"100.64.0.{number}", "100.64.1.1"] for number in range(200)},
    ip6={f"n{number}.tail1234.ts.net": ["2001:db8::1"] for number in range(100)},
)
EVERYTHING = ("--types", "A,AAAA,MX", "--miss", "0.2", "--malformed", "0.05", "--edns", "1232")


class Ended(NamedTuple):
    code: int | None
    stdout: str
    stderr: str


class Server(NamedTuple):
    target: str
    records: Path


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    path = tmp_path / "records.json"
    path.write_text(render(RECORDS))
    async with nameserver(path) as running:
        await running.says("serving 200 names")
        yield Server(f"127.0.0.1:{running.port}", path)


async def started(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "dnsload", *arguments, stdout=pipe, stderr=pipe)


async def dnsload(*arguments: str) -> Ended:
    process = await started(*arguments)
    async with asyncio.timeout(45):
        stdout, stderr = await process.communicate()
    return Ended(process.returncode, stdout.decode(), stderr.decode())


@pytest.mark.parametrize(
    "how",
    [
        ("--rate", "500", "--duration", "1", "--engine", "asyncio"),
        ("--rate", "500", "--duration", "1", "--engine", "mmsg"),
        ("--rate", "500", "--duration", "1", "--tcp"),
        ("--concurrency", "20", "--duration", "1"),
        ("--concurrency", "20", "--duration", "1", "--tcp", "--dnssec-ok"),
    ],
    ids=" ".join,
)
async def test_the_nameserver_answers_all_of_it_right(server: Server, tmp_path: Path, how: tuple[str, ...]) -> None:
    out = tmp_path / "report.json"
    base = ("--target", server.target, "--records", str(server.records), "--json", str(out), "--max-loss", "0")
    ended = await dnsload(*base, *how, *EVERYTHING)
    assert ended.code == 0, ended
    totals = json.loads(out.read_text())["totals"]
    assert totals["answered"] == totals["sent"] > 100
    assert {"NOERROR", "NXDOMAIN"} == {*totals["rcodes"]}
    assert totals["malformed_sent"] > 0


async def test_it_reports_each_second_and_at_the_end(server: Server, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    what = ("--target", server.target, "--records", str(server.records), "--rate", "200", "--duration", "2")
    ended = await dnsload(*what, "--html", str(page))
    assert len([line for line in ended.stderr.splitlines() if " s   sent " in line]) >= 2
    assert ended.stdout.splitlines()[-1] == "ok"
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("how", [("--engine", "asyncio"), ("--engine", "mmsg"), ("--tcp",)], ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_early_and_it_still_reports(
    server: Server, how: tuple[str, ...], number: signal.Signals
) -> None:
    what = ("--target", server.target, "--records", str(server.records), "--rate", "200", "--duration", "1h")
    process = await started(*what, *how)
    assert process.stderr is not None
    async with asyncio.timeout(30):
        assert b"sent" in await process.stderr.readline()
        process.send_signal(number)
        stdout, _ = await process.communicate()
    assert process.returncode == 0
    assert "(interrupted)" in stdout.decode()


async def test_wrong_answers_are_exit_code_1(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ended = await dnsload("--target", server.target, "--records", str(records_file(other)), "--duration", "0.2")
    assert ended.code == 1
    assert "FAILED: " in ended.stdout


async def test_loss_is_exit_code_1(tmp_path: Path) -> None:
    async with udp_responder(lambda *_: None) as target:
        what = ("--target", str(target), "--name", "a.ts.net", "--duration", "0.2", "--timeout", "0.2")
        assert (await dnsload(*what)).code == 1
        assert (await dnsload(*what, "--max-loss", "1")).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--rate 2000000", "--rate: 2000000 queries a second is not more than 0 and at most 1,000,000"),
        ("--records /none.json", "/none.json can't be read: No such file or directory"),
        ("--name a.ts.net --target 255.255.255.255 --engine asyncio", "255.255.255.255:53 can't be reached"),
        ("--name a.ts.net --target 255.255.255.255 --engine mmsg", "255.255.255.255:53 can't be reached"),
        ("--name a..b", "'a..b' is no DNS name"),
        ("--name a.ts.net --types XX", "'XX' is no type of record"),
        ("--name a.ts.net --html /none/report.html", "/none/report.html can't be written"),
        ("", "what to ask?"),
    ],
)
async def test_bad_input_is_one_line_and_exit_code_2(arguments: str, words: str) -> None:
    ended = await dnsload("--target", "127.0.0.1", *arguments.split())
    assert (ended.code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"dnsload: {words}")
