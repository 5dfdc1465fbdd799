"""Tests of runs by TCP."""

from pathlib import Path

import pytest

from tests.loadtest.dnsload.conducting import conduct
from tests.loadtest.dnsload.responder import relay_of_tens, tcp_responder, udp_responder, well

TCP = ("--tcp", "--connections", "2")


async def test_connections_are_reused_and_pipelined(tmp_path: Path) -> None:
    async with relay_of_tens() as relay:
        report = (await conduct("asyncio", relay.target, tmp_path, *TCP)).report
    assert (report.totals.answered, report.totals.wrong, relay.connections) == (report.totals.sent, 0, 2)
    assert report.totals.sent > 100


async def test_a_connection_that_ends_is_made_again(tmp_path: Path) -> None:
    async with tcp_responder(close_after=20) as target:
        totals = (await conduct("asyncio", target, tmp_path, *TCP)).report.totals
    assert totals.sent == totals.answered + totals.lost
    assert totals.answered > 40


async def test_refused_connections_are_loss_and_said(tmp_path: Path) -> None:
    async with tcp_responder() as target:
        pass
    report = (await conduct("asyncio", target, tmp_path, *TCP, "--timeout", "0.3")).report
    assert report.totals.lost == report.totals.sent
    assert report.totals.connections_failed >= 2
    assert report.failures


async def test_a_server_that_has_udp_alone_refuses_tcp(tmp_path: Path) -> None:
    async with udp_responder() as target:
        totals = (await conduct("asyncio", target, tmp_path, *TCP, "--timeout", "0.3")).report.totals
    assert (totals.answered, totals.lost) == (0, totals.sent)


async def test_an_answer_that_never_comes_is_lost_after_the_timeout(tmp_path: Path) -> None:
    async with tcp_responder(lambda number, query: well(number, query) if number % 10 else None) as target:
        totals = (await conduct("asyncio", target, tmp_path, *TCP)).report.totals
    assert totals.lost == pytest.approx(totals.sent / 10, abs=2)
    assert totals.answered + totals.lost == totals.sent
