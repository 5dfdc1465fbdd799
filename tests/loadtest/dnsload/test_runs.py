"""Tests of whole runs by UDP, on both engines, against servers that misbehave."""

from collections import Counter
from pathlib import Path

import dns.flags
import dns.message
import pytest

from tests.loadtest.dnsload.conducting import NAMES, conduct
from tests.loadtest.dnsload.responder import ADDRESS, answer_well, response, tcp_responder, udp_responder


@pytest.fixture(params=["asyncio", "compiled"])
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine. Each test runs with both engines."""
    name: str = request.param
    return name


async def test_a_run_against_a_good_server_passes_and_the_servers_delay_shows_as_latency(
    engine: str, tmp_path: Path
) -> None:
    async with udp_responder(delay=0.02) as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert (report.totals.sent, report.totals.answered, report.totals.lost) == (100, 100, 0)
    assert report.totals.rcodes == {"NOERROR": 100}
    assert 20 <= report.latency.p50 <= report.latency.p99 <= report.latency.max
    assert (report.failures, report.totals.unexpected, report.totals.unsent) == ([], 0, 0)


async def test_a_run_of_dnsload_contains_queries_for_absent_names_and_malformed_packets(
    engine: str, tmp_path: Path
) -> None:
    async with udp_responder() as target:
        mix = ("--miss", "0.3", "--malformed", "0.2", "--edns", "1232", "--seed", "1", "--timeout", "1")
        totals = (await conduct(engine, target, tmp_path, *mix)).report.totals
    assert totals.sent + totals.malformed_sent == 100
    assert 8 < totals.malformed_sent < 33
    assert 15 < totals.rcodes["NXDOMAIN"] < 45
    assert (totals.wrong, totals.lost) == (0, 0)


def misbehave(number: int, query: bytes) -> bytes | None:
    """Treat the queries in groups of ten: drop one of them, give one a wrong address, and truncate one answer."""
    if number % 10 == 1:
        reply = response(query)
        reply.flags |= dns.flags.TC
        return reply.to_wire()
    return answer_well(number, query, "192.0.2.9" if number % 10 == 2 else ADDRESS) if number % 10 else None


async def test_the_report_counts_lost_wrong_and_truncated_answers_separately(engine: str, tmp_path: Path) -> None:
    async with udp_responder(misbehave) as target:
        report = (await conduct(engine, target, tmp_path, "--timeout", "0.5")).report
    totals = report.totals
    assert (totals.sent, totals.answered, totals.lost, totals.loss) == (100, 90, 10, 0.1)
    assert (totals.truncated, totals.wrong, report.wrong_reasons) == (10, 10, {"addresses": 10})
    assert "192.0.2.9 instead of 100.64.0.1" in report.wrong_examples[0]
    assert report.failures == [
        "10 answers were wrong",
        "10.000% of the queries were lost, more than 0.100%",
    ]


async def test_a_query_with_a_late_answer_counts_as_lost_and_delays_no_other_query(engine: str, tmp_path: Path) -> None:
    pace = ("--rate", "200", "--duration", "0.5", "--timeout", "0.2")
    async with udp_responder(delay=0.3) as target:
        report = (await conduct(engine, target, tmp_path, *pace)).report
    totals = report.totals
    assert (totals.lost, totals.answered, totals.sent, totals.unsent) == (100, 0, 100, 0)
    assert 0 < totals.late <= 100
    assert (report.latency.min >= 200, report.latency.max >= 300) == (True, True)


async def test_a_run_of_dnsload_without_a_rate_continues_after_a_lost_query(engine: str, tmp_path: Path) -> None:
    pace = ("--concurrency", "3", "--duration", "0.4", "--timeout", "0.1")
    async with udp_responder(lambda number, query: answer_well(number, query) if number > 3 else None) as target:
        totals = (await conduct(engine, target, tmp_path, *pace)).report.totals
    assert 3 <= totals.lost < totals.sent
    assert totals.answered + totals.lost == totals.sent


async def test_queries_to_a_closed_port_count_as_lost_and_as_refused(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as target:
        pass
    report = (await conduct(engine, target, tmp_path, "--timeout", "0.2")).report
    assert (report.totals.sent, report.totals.lost) == (100, 100)
    assert report.totals.refused > 0
    assert (report.latency.p50, report.latency.max) == pytest.approx((200, 200), rel=2e-3)


SOURCE = "127.0.0.2"


@pytest.mark.parametrize("pace", [("--rate", "300"), ("--concurrency", "4"), ("--concurrency", "4", "--tcp")])
async def test_dnsload_with_a_source_address_asks_each_question_once_in_each_pass(
    engine: str, tmp_path: Path, pace: tuple[str, ...]
) -> None:
    asked: list[str] = []

    def note(number: int, query: bytes) -> bytes | None:
        asked.append(str(dns.message.from_wire(query).question[0].name))
        return answer_well(number, query)

    from_there = ("--passes", "3", "--source", SOURCE)
    async with (tcp_responder if "--tcp" in pace else udp_responder)(note, client=SOURCE) as target:
        report = (await conduct(engine, target, tmp_path, *pace, *from_there)).report
    assert (report.totals.sent, report.totals.answered, report.failures) == (15, 15, [])
    assert Counter(asked) == {f"{name}.": 3 for name in NAMES}
    assert {*asked[:5]} == {f"{name}." for name in NAMES}


async def test_several_targets_are_queried_in_turn_and_reported_separately(engine: str, tmp_path: Path) -> None:
    pace = ("--rate", "500", "--duration", "0.2", "--timeout", "0.5")
    async with udp_responder() as first, udp_responder(lambda *_: None) as second:
        report = (await conduct(engine, first, tmp_path, "--target", str(second), *pace)).report
    assert [each.sent for each in report.targets] == pytest.approx([50, 50], abs=20)
    lost = {each.target: each.lost for each in report.targets}
    assert lost[str(first)] == 0
    assert lost[str(second)] == report.totals.lost == report.totals.sent - report.totals.answered > 0


@pytest.mark.thorough
async def test_each_step_of_the_rate_is_reported_separately(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as target:
        report = (await conduct(engine, target, tmp_path, "--steps", "50,100", "--step-seconds", "1")).report
    assert [step.rate for step in report.steps] == [50, 100]
    assert [step.totals.sent for step in report.steps] == pytest.approx([50, 100], abs=10)
