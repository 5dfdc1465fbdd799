"""Tests of whole runs by UDP, on both engines, against servers that misbehave."""

from pathlib import Path

import dns.flags
import pytest
from dnsload.app import choose_engine, every_target, make_workload
from dnsload.errors import InputError
from dnsload.settings import Settings, read_settings

from tests.loadtest.dnsload.conducting import NAMES, conduct, records_file
from tests.loadtest.dnsload.responder import response, udp_responder, well

pytestmark = pytest.mark.parametrize("engine", ["asyncio", "mmsg"])


async def test_a_good_server_is_fine(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert (report.totals.sent, report.totals.answered, report.totals.lost) == (200, 200, 0)
    assert report.totals.rcodes == {"NOERROR": 200}
    assert 0 < report.latency.p50 <= report.latency.p99 <= report.latency.max
    assert (report.failures, report.totals.unexpected, report.totals.unsent) == ([], 0, 0)


async def test_absent_names_and_malformed_packets_are_mixed_in(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as target:
        mix = ("--miss", "0.3", "--malformed", "0.2", "--types", "A", "--edns", "1232", "--seed", "1", "--timeout", "1")
        totals = (await conduct(engine, target, tmp_path, *mix)).report.totals
    assert totals.sent + totals.malformed_sent == 200
    assert 15 < totals.malformed_sent < 65
    assert 30 < totals.rcodes["NXDOMAIN"] < 90
    assert (totals.wrong, totals.lost) == (0, 0)


async def test_every_tenth_query_that_is_dropped_is_lost(engine: str, tmp_path: Path) -> None:
    async with udp_responder(lambda number, query: well(number, query) if number % 10 else None) as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert (report.totals.lost, report.totals.answered, report.totals.loss) == (20, 180, 0.1)
    assert report.failures == ["10.000% of the queries were lost, more than 0.100%"]


async def test_wrong_addresses_are_wrong(engine: str, tmp_path: Path) -> None:
    async with udp_responder(
        lambda number, query: well(number, query, "192.0.2.9" if number % 4 == 0 else "100.64.0.1")
    ) as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert (report.totals.wrong, report.wrong_reasons) == (50, {"addresses": 50})
    assert "192.0.2.9 instead of 100.64.0.1" in report.wrong_examples[0]
    assert report.failures == ["50 answers were wrong"]


async def test_late_answers_are_lost_and_counted_as_late(engine: str, tmp_path: Path) -> None:
    async with udp_responder(delay=0.3) as target:
        totals = (await conduct(engine, target, tmp_path, "--timeout", "0.2")).report.totals
    assert (totals.lost, totals.answered, totals.sent) == (200, 0, 200)
    assert 0 < totals.late <= 200


async def test_a_delay_is_the_latency(engine: str, tmp_path: Path) -> None:
    async with udp_responder(delay=0.05) as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert report.latency.p50 >= 50


def truncated(number: int, query: bytes) -> bytes:
    del number
    made = response(query)
    made.flags |= dns.flags.TC
    return made.to_wire()


async def test_truncated_answers_are_counted_and_not_wrong(engine: str, tmp_path: Path) -> None:
    async with udp_responder(truncated) as target:
        report = (await conduct(engine, target, tmp_path)).report
    assert (report.totals.truncated, report.totals.answered, report.failures) == (200, 200, [])


async def test_second_answers_are_unexpected(engine: str, tmp_path: Path) -> None:
    async with udp_responder(copies=2) as target:
        totals = (await conduct(engine, target, tmp_path, "--concurrency", "5", "--duration", "0.5")).report.totals
    assert totals.answered == totals.sent > 5
    assert totals.unexpected > totals.sent / 2


async def test_a_closed_loop_goes_on_after_a_loss(engine: str, tmp_path: Path) -> None:
    pace = ("--concurrency", "3", "--duration", "1", "--timeout", "0.2")
    async with udp_responder(lambda number, query: well(number, query) if number % 20 else None) as target:
        totals = (await conduct(engine, target, tmp_path, *pace)).report.totals
    assert totals.lost > 3
    assert totals.answered + totals.lost == totals.sent


async def test_a_closed_port_is_loss_and_said_to_be_closed(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as target:
        pass
    totals = (await conduct(engine, target, tmp_path, "--timeout", "0.2")).report.totals
    assert (totals.sent, totals.lost) == (200, 200)
    assert totals.refused > 0


async def test_steps_and_targets_are_told_apart(engine: str, tmp_path: Path) -> None:
    async with udp_responder() as first, udp_responder(lambda *_: None) as second:
        pace = ("--target", str(second), "--steps", "50,100", "--step-seconds", "1", "--timeout", "0.3")
        report = (await conduct(engine, first, tmp_path, *pace)).report
    assert [step.rate for step in report.steps] == [50, 100]
    assert [step.totals.sent for step in report.steps] == pytest.approx([50, 100], abs=10)
    assert [each.sent for each in report.targets] == pytest.approx([75, 75], abs=5)
    lost = {each.target: each.lost for each in report.targets}
    assert lost[str(first)] == 0
    assert lost[str(second)] == report.totals.lost == report.totals.sent - report.totals.answered > 0


def settings(tmp_path: Path, *arguments: str) -> Settings:
    return read_settings(["--target", "127.0.0.1:53", "--records", str(records_file(tmp_path)), *arguments])


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (("--rate", "3000"), "asyncio"),
        (("--rate", "10..3001"), "mmsg"),
        (("--concurrency", "1"), "mmsg"),
        (("--tcp", "--rate", "5000"), "asyncio"),
    ],
)
def test_the_engine_is_chosen_by_rate(engine: str, tmp_path: Path, arguments: tuple[str, ...], chosen: str) -> None:
    assert choose_engine(settings(tmp_path, *arguments)) == chosen
    if "--tcp" not in arguments:
        assert choose_engine(settings(tmp_path, *arguments, "--engine", engine)) == engine


def test_there_are_as_many_sockets_as_ids_are_needed(engine: str, tmp_path: Path) -> None:
    assert len(every_target(settings(tmp_path, "--engine", engine, "--sockets", "2"))) == 2
    many = every_target(settings(tmp_path, "--engine", engine, "--rate", "1000000"))
    assert len(many) * 65536 > 2 * 1_000_000


def test_questions_are_the_records_unless_others_are_named(engine: str, tmp_path: Path) -> None:
    load = make_workload(settings(tmp_path, "--engine", engine, "--types", "A,AAAA"))
    assert len(load.pool) == 2 * len(NAMES)
    named = make_workload(settings(tmp_path, "--name", NAMES[0], "--name", "x.ts.net"))
    assert [str(asked.question) for asked in named.pool] == [f"{NAMES[0]} A", "x.ts.net A"]
    empty = tmp_path / "names"
    empty.write_text("# none\n")
    with pytest.raises(InputError, match="no name"):
        make_workload(read_settings(["--target", "127.0.0.1", "--names", str(empty)]))
