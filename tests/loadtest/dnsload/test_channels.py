"""Tests of runs of dnsload by TCP."""

from pathlib import Path

import dns.flags
import pytest

from tests.loadtest.dnsload.conducting import conduct
from tests.loadtest.dnsload.responder import Respond, relay_of_tens, response, tcp_responder, udp_responder

TCP = ("--tcp", "--connections", "2", "--timeout", "1")


def truncated(number: int, query: bytes) -> bytes:
    del number
    reply = response(query)
    reply.flags |= dns.flags.TC
    return reply.to_wire()


async def test_dnsload_reuses_and_pipelines_tcp_connections(tmp_path: Path) -> None:
    async with relay_of_tens() as relay:
        ran = await conduct("asyncio", relay.target, tmp_path, *TCP)
    totals = ran.report.totals
    assert (totals.answered, totals.wrong, relay.connections) == (100, 0, 2 * ran.runs)


async def test_dnsload_opens_a_tcp_connection_for_each_query_on_request(tmp_path: Path) -> None:
    made: list[int] = []
    async with tcp_responder(connected=made.append) as target:
        ran = await conduct("asyncio", target, tmp_path, *TCP, "--new-connections")
    assert ran.report.totals.answered == 100
    assert 100 <= len(made) <= 100 * ran.runs  # a run on a busy machine makes fewer connections, and is repeated


@pytest.mark.parametrize("respond", [lambda *_: None, lambda *_: b""], ids=["silent", "nothing in it"])
async def test_with_one_connection_per_query_the_report_counts_lost_queries_and_failed_connections(
    tmp_path: Path, respond: Respond
) -> None:
    pace = ("--rate", "50", "--duration", "0.2", "--new-connections")
    async with tcp_responder(respond) as target:
        lost = (await conduct("asyncio", target, tmp_path, *TCP, *pace)).report.totals
    refused = (await conduct("asyncio", target, tmp_path, *TCP, *pace)).report.totals
    assert (lost.lost, lost.connections_failed) == (10, 0)
    assert (refused.lost, refused.connections_failed) == (10, 10)


@pytest.mark.parametrize("engine", ["asyncio", "compiled"])
async def test_dnsload_asks_again_by_tcp_after_a_truncated_answer(tmp_path: Path, engine: str) -> None:
    async with tcp_responder() as target, udp_responder(truncated, port=target.port) as same:
        totals = (await conduct(engine, same, tmp_path, "--tcp-retry")).report.totals
    assert (totals.answered, totals.retried, totals.truncated, totals.wrong) == (100, 100, 0, 0)


@pytest.mark.parametrize("engine", ["asyncio", "compiled"])
async def test_dnsload_counts_a_truncated_answer_by_tcp_as_wrong(tmp_path: Path, engine: str) -> None:
    async with tcp_responder(truncated) as target, udp_responder(truncated, port=target.port) as same:
        report = (await conduct(engine, same, tmp_path, "--tcp-retry")).report
    assert (report.totals.wrong, report.wrong_reasons, report.totals.retried) == (100, {"truncated": 100}, 100)


async def test_dnsload_replaces_a_tcp_connection_that_ends(tmp_path: Path) -> None:
    async with tcp_responder(close_after=20) as target:
        ran = await conduct("asyncio", target, tmp_path, *TCP, "--duration", "0.5", "--rate", "400")
    totals = ran.report.totals
    assert totals.sent == totals.answered + totals.lost == 200
    assert totals.answered > 40


async def test_dnsload_counts_queries_on_a_tcp_connection_that_ends_as_lost_at_once(tmp_path: Path) -> None:
    pace = ("--concurrency", "4", "--duration", "0.3", "--timeout", "20")
    async with tcp_responder(lambda *_: None, close_after=2) as target:
        report = (await conduct("asyncio", target, tmp_path, *TCP, *pace)).report
    assert report.totals.lost == report.totals.sent > 4
    assert report.totals.connections_failed > 2
    assert report.seconds < 10


async def test_queries_on_refused_tcp_connections_count_as_lost_and_the_run_fails(tmp_path: Path) -> None:
    async with tcp_responder() as target:
        pass
    report = (await conduct("asyncio", target, tmp_path, *TCP, "--timeout", "0.3")).report
    assert (report.totals.sent, report.totals.lost) == (100, 100)
    assert report.totals.connections_failed >= 2
    assert report.failures
