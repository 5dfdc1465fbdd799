"""Tests of the command: whole runs against the real nameserver, output files, exit codes and signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from dnsload.__main__ import main
from dnsload.app import run
from dnsload.settings import read_settings
from tsnameserver import __version__
from tsnameserver.records import Records, render

from tests.loadtest.compiling import NEEDS_CC
from tests.loadtest.dnsload.conducting import LIMITED, records_file, small
from tests.support.nameserver import nameserver

RECORDS = Records(
    ip4={f"n{number}.tail1234.ts.net": [f"100.64.0.{number}", "100.64.1.1"] for number in range(200)},
    ip6={f"n{number}.tail1234.ts.net": ["2001:db8::1"] for number in range(100)},
)
EVERYTHING = "--types A,AAAA,MX --miss 0.2 --malformed 0.05 --edns 1232 --max-loss 0 --timeout 1 --quiet"
COMMAND = (sys.executable, "-m", "dnsload")


class Server(NamedTuple):
    target: str
    records: Path

    @property
    def arguments(self) -> tuple[str, ...]:
        return "--target", self.target, "--records", str(self.records)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    path = tmp_path_factory.mktemp("server") / "records.json"
    path.write_text(render(RECORDS))
    async with nameserver(path) as running:
        await running.says("serving 200 names")
        yield Server(f"127.0.0.1:{running.port}", path)


@pytest.mark.parametrize(
    "how",
    [
        "--rate 1000 --engine asyncio",
        "--rate 1000 --tcp",
        pytest.param("--concurrency 20 --engine compiled", marks=NEEDS_CC),
        "--concurrency 20 --tcp --dnssec-ok",
    ],
)
def test_the_nameserver_answers_every_query_of_dnsload_right(server: Server, how: str) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    arguments = [*server.arguments, *EVERYTHING.split(), *how.split()]
    for seconds in ("0.2", "2", "10"):
        report = run(small(read_settings([*arguments, "--duration", seconds])))
        if report.totals.sent > 50:  # otherwise the machine was too busy
            break
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert (report.failures, report.wrong_examples, report.interrupted) == ([], [], False)
    assert report.totals.answered == report.totals.sent > 50
    assert {"NOERROR", "NXDOMAIN"} == {*report.totals.rcodes}
    assert report.totals.malformed_sent > 0


def test_a_run_of_dnsload_prints_a_report_each_second_and_at_the_end(server: Server, tmp_path: Path) -> None:
    out, page = tmp_path / "report.json", tmp_path / "report.html"
    how = ("--rate", "200", "--duration", "2.2", "--json", str(out), "--html", str(page))
    ended = subprocess.run([*COMMAND, *server.arguments, *how], capture_output=True, text=True, timeout=45, check=False)
    assert ended.returncode in {0, LIMITED}, ended
    assert len([line for line in ended.stderr.splitlines() if " s   sent " in line]) >= 2
    assert (ended.stdout.splitlines()[-1] == "ok") == (ended.returncode == 0)
    totals = json.loads(out.read_text())["totals"]
    assert totals["answered"] == totals["sent"] > 100
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("--engine=asyncio", signal.SIGINT),
        pytest.param("--engine=compiled", signal.SIGTERM, marks=NEEDS_CC),
        pytest.param("--tcp", signal.SIGTERM, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_ends_a_run_of_dnsload_early_and_the_report_is_printed(
    server: Server, how: str, number: signal.Signals
) -> None:
    with sigint_is(signal.default_int_handler):
        stdout = signalled([*server.arguments, "--rate", "200", "--duration", "30", how], number)
    assert re.search(r"\(interrupted\).*^sent +[1-9]", stdout, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("engine", ["asyncio", pytest.param("compiled", marks=NEEDS_CC)])
def test_a_run_of_dnsload_that_was_started_with_sigint_ignored_continues_after_sigint(
    server: Server, engine: str
) -> None:
    with sigint_is(signal.SIG_IGN):
        stdout = signalled([*server.arguments, "--rate", "200", "--duration", "1.5", "--engine", engine], signal.SIGINT)
    assert "(interrupted)" not in stdout
    assert re.search("^sent +300$", stdout, re.MULTILINE)


@contextmanager
def sigint_is(handler: Any) -> Iterator[None]:
    """Make *handler* handle SIGINT in this process during the block.

    Programs that start in the block inherit only whether SIGINT is ignored. Before the block, this process can have
    ignored SIGINT.
    """
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def signalled(arguments: Sequence[str], number: signal.Signals) -> str:
    """Return the output of dnsload if it and its clients get a signal after a second, as from a terminal."""
    pipe = subprocess.PIPE
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        engine, first = process.stderr.readline(), process.stderr.readline()
        os.killpg(process.pid, number)
        stdout, _ = process.communicate(timeout=40)
    assert ("engine" in engine, "sent" in first, process.returncode in {0, LIMITED}) == (True, True, True)
    return stdout


def test_dnsload_exits_with_1_after_a_wrong_answer(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--target", server.target, "--records", str(records_file(tmp_path)), "--duration", "0.2"]
    assert main(arguments) == 1
    assert "FAILED: " in capsys.readouterr().out


def test_dnsload_exits_with_1_after_a_lost_query_unless_the_user_allows_losses() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["--target", target, "--name", "a.ts.net", "--duration", "0.1", "--timeout", "0.1"]
        assert main(arguments) == 1
        assert main([*arguments, "--max-loss", "1"]) in {0, LIMITED}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("127.0.0.1 --records /none.json", "/none.json can't be read: No such file or directory"),
        ("255.255.255.255 --name a.ts.net --engine asyncio", "255.255.255.255:53 can't be reached"),
        ("255.255.255.255 --name a.ts.net --engine compiled", "255.255.255.255:53 can't be reached"),
        ("127.0.0.1 --name a..b", "'a..b' is no DNS name"),
        ("127.0.0.1 --name a.ts.net --html /none/report.html", "/none/report.html can't be written"),
        ("127.0.0.1 --name a.ts.net --json /none/report.json", "/none/report.json can't be written"),
        ("127.0.0.1 --name a --source 192.0.2.1", "--source 192.0.2.1 can't be used: Cannot assign requested address"),
        ("127.0.0.1 --names /dev/null", "there is no name to ask for"),
        ("127.0.0.1 --name a --tcp --malformed 0.1 --engine compiled", "--malformed with --tcp needs --engine asyncio"),
        ("127.0.0.1", "what to ask?"),
    ],
)
def test_dnsload_reports_bad_input_in_one_line_and_exits_with_2(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--target", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"dnsload: {words}")


def test_the_option_version_prints_the_version_of_dnsload(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"dnsload {__version__}\n")


def test_the_process_of_dnsload_ends_with_the_exit_code_of_the_run() -> None:
    command = [*COMMAND, "--target", "127.0.0.1", "--rate", "2000000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=45, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    words = "--rate: 2000000 queries a second is not more than 0 and at most 1,000,000"
    assert ended.stderr == f"dnsload: {words}\n"
