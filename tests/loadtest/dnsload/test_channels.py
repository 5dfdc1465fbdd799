"""Tests of runs by TCP."""

from pathlib import Path

from tests.loadtest.dnsload.conducting import conduct
from tests.loadtest.dnsload.responder import answer_well, relay_of_tens, tcp_responder

TCP = ("--tcp", "--connections", "2", "--timeout", "1")


async def test_connections_are_reused_and_pipelined(tmp_path: Path) -> None:
    async with relay_of_tens() as relay:
        ran = await conduct("asyncio", relay.target, tmp_path, *TCP)
    totals = ran.report.totals
    assert (totals.answered, totals.wrong, relay.connections) == (100, 0, 2 * ran.runs)


async def test_a_connection_that_ends_is_made_again(tmp_path: Path) -> None:
    async with tcp_responder(close_after=20) as target:
        ran = await conduct("asyncio", target, tmp_path, *TCP, "--duration", "0.5", "--rate", "400")
    totals = ran.report.totals
    assert totals.sent == totals.answered + totals.lost == 200
    assert totals.answered > 40


async def test_the_queries_of_a_connection_that_ends_are_lost_at_once(tmp_path: Path) -> None:
    pace = ("--concurrency", "4", "--duration", "0.3", "--timeout", "20")
    async with tcp_responder(lambda *_: None, close_after=2) as target:
        report = (await conduct("asyncio", target, tmp_path, *TCP, *pace)).report
    assert report.totals.lost == report.totals.sent > 4
    assert report.totals.connections_failed > 2
    assert report.seconds < 10


async def test_refused_connections_are_loss_and_said(tmp_path: Path) -> None:
    async with tcp_responder() as target:
        pass
    report = (await conduct("asyncio", target, tmp_path, *TCP, "--timeout", "0.3")).report
    assert (report.totals.sent, report.totals.lost) == (100, 100)
    assert report.totals.connections_failed >= 2
    assert report.failures


async def test_an_answer_that_never_comes_is_lost_after_the_timeout(tmp_path: Path) -> None:
    async with tcp_responder(lambda number, query: answer_well(number, query) if number % 10 else None) as target:
        totals = (await conduct("asyncio", target, tmp_path, *TCP)).report.totals
    assert (totals.answered, totals.lost) == (90, 10)
