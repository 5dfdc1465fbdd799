"""Tests of the features that only the engine of compiled clients has."""

from dataclasses import replace
from pathlib import Path

import pytest
from dnsload.app import client_load, make_session, make_workload
from dnsload.client import IDS, JUNK, Load, Query, steady
from dnsload.compiled import CompiledEngine, query, shared
from dnsload.errors import ClientError
from dnsload.expectations import ABSENT, UNKNOWN, Expectation
from dnsload.targets import Target
from dnsload.workload import Asked, Question

from tests.loadtest.dnsload.conducting import conduct, run_settings
from tests.loadtest.dnsload.responder import answer_well, udp_responder

A = Question("a.ts.net", "A")


@pytest.mark.parametrize(
    ("question", "expected", "told"),
    [
        (A, UNKNOWN, Query(b"\0\0rest", rcode=None, addresses=None)),
        (A, ABSENT, Query(b"\0\0rest", rcode=3, addresses=[])),
        (A, Expectation(0, frozenset({"192.0.2.1"})), Query(b"\0\0rest", addresses=[bytes((192, 0, 2, 1))])),
        (A, Expectation(0, frozenset({"::1"})), Query(b"\0\0rest", addresses=[bytes(15) + b"\1"])),
        (None, UNKNOWN, Query(b"\xff\xffrest", JUNK)),
    ],
)
def test_the_input_of_a_compiled_client_has_its_queries_and_the_expected_answers(
    question: Question | None, expected: Expectation, told: Query
) -> None:
    assert query(Asked(b"rest", question, b"", expected)) == told


@pytest.mark.parametrize(
    ("load", "clients", "rates", "outstanding", "sockets"),
    [
        (Load(1, steady(90), outstanding=0), 3, 30, [0, 0, 0], 1),
        (Load(1, outstanding=5), 2, 0, [3, 2], 1),
        (Load(1, outstanding=1), 2, 0, [1], 1),
        (Load(1, steady(2 * IDS), outstanding=0, patience=2), 2, IDS, [0, 0], 3),
        (Load(1, outstanding=3 * IDS), 2, 0, [98208, 98208], 2),
        (Load(1, outstanding=5, sockets=4), 1, 0, [5], 4),
    ],
)
def test_several_compiled_clients_share_the_load_and_each_has_enough_sockets(
    load: Load, clients: int, rates: float, outstanding: list[int], sockets: int
) -> None:
    loads = shared(load, clients)
    assert [each.outstanding for each in loads] == outstanding
    assert {each.rates for each in loads} == {steady(rates) if rates else ()}
    assert {each.sockets for each in loads} == {sockets}


@pytest.mark.parametrize(
    ("arguments", "load"),
    [
        ("--steps 10,20 --step-seconds 3", Load(6, ((10, 10), (20, 20)), 0, sockets=4, each=100, patience=2)),
        ("--rate 1..9 --sockets 6 --workers 2", Load(10, ((1, 9),), 0, sockets=3, each=100, patience=2)),
        ("--concurrency 7 --tcp", Load(10, (), 7, connections=4, each=100, patience=2)),
        ("--concurrency 7 --tcp --new-connections", Load(10, (), 7, connections=7, each=1, patience=2)),
        ("--rate 9 --tcp --new-connections", Load(10, steady(9), 0, connections=500, each=1, patience=2)),
        ("--concurrency 7 --tcp-retry", Load(10, (), 7, sockets=4, each=100, patience=2, retry=True)),
    ],
)
def test_the_load_of_the_compiled_clients_follows_the_command_line(tmp_path: Path, arguments: str, load: Load) -> None:
    settings = run_settings(Target("127.0.0.1", 53), tmp_path, *arguments.split())
    told = client_load(settings)
    assert (told.every, told.authoritative) == (1, True)
    assert replace(told, every=0, authoritative=False) == load


async def test_the_report_adds_up_the_results_of_several_compiled_clients(tmp_path: Path) -> None:
    async with udp_responder() as target:
        pace = ("--rate", "300", "--duration", "1.6", "--workers", "2")
        report = (await conduct("compiled", target, tmp_path, *pace)).report
    assert (report.totals.sent, report.totals.answered, report.totals.rcodes) == (480, 480, {"NOERROR": 480})
    assert [each.sent for each in report.targets] == [480]
    first, last = (window.end for window in report.windows)
    assert (first > 0.7, last > 1.3) == (True, True)  # on a busy machine, windows end late
    assert 0 <= report.client_cpu < 0.9  # a client that only waits isn't busy


async def test_the_report_on_compiled_clients_describes_wrong_answers_in_words(tmp_path: Path) -> None:
    async with udp_responder(lambda number, asked: answer_well(number, asked, "192.0.2.9")) as target:
        report = (await conduct("compiled", target, tmp_path, "--workers", "2")).report
    assert (report.totals.wrong, report.wrong_reasons) == (100, {"addresses": 100})
    assert len(report.wrong_examples) == 10
    assert report.wrong_examples[0].endswith("tail1234.ts.net A: 192.0.2.9 instead of 100.64.0.1")


def test_the_error_about_a_failed_compiled_client_has_the_reason(tmp_path: Path) -> None:
    failing = tmp_path / "client"
    failing.write_text("#!/bin/sh\necho why >&2\nexit 3\n")
    failing.chmod(0o755)
    settings = run_settings(Target("127.0.0.1", 9), tmp_path)
    engine = CompiledEngine(
        make_session(settings, make_workload(settings)), settings.targets, [client_load(settings)], failing
    )
    with pytest.raises(ClientError, match="ended with code 3: why"):
        engine.run()
