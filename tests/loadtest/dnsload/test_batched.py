"""Tests of what is special to the engine on batches."""

import asyncio
import threading
from pathlib import Path

from dnsload.app import every_target, make_session
from dnsload.batched import BatchedEngine

from tests.loadtest.dnsload.conducting import conduct, run_settings
from tests.loadtest.dnsload.responder import udp_responder


async def test_an_engine_that_is_stopped_has_recorded_what_came_before(tmp_path: Path) -> None:
    stop = threading.Event()
    async with udp_responder() as target:
        settings = run_settings(target, tmp_path, "--rate", "1000", "--duration", "10")
        engine = BatchedEngine(make_session(settings), every_target(settings), stop)
        running = asyncio.create_task(asyncio.to_thread(engine.run))
        while sum(exchange.totals.right for exchange in engine.exchanges) < 10:  # noqa: ASYNC110 - a thread counts
            await asyncio.sleep(0)
        stop.set()
        await running
    assert 10 <= sum(exchange.totals.sent for exchange in engine.exchanges) < 10_000
    assert sum(exchange.totals.lost for exchange in engine.exchanges) == 0


async def test_more_than_a_batch_can_be_outstanding(tmp_path: Path) -> None:
    async with udp_responder(delay=0.3) as target:
        pace = ("--concurrency", "200", "--duration", "0.25", "--timeout", "10")
        totals = (await conduct("mmsg", target, tmp_path, *pace)).report.totals
    assert totals.sent == totals.answered == 200
