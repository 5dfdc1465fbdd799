"""Tests of what is special to the engine on asyncio."""

import asyncio
import selectors
from pathlib import Path

from dnsload.app import every_target, make_session
from dnsload.channels import Datagrams
from dnsload.looped import LoopedEngine, fine_loop

from tests.loadtest.dnsload.conducting import run_settings
from tests.loadtest.dnsload.responder import udp_responder


def test_the_loop_waits_to_the_microsecond() -> None:
    with asyncio.Runner(loop_factory=fine_loop) as runner:
        # The loop tells of it in no other way; epoll would wait for whole milliseconds.
        assert isinstance(vars(runner.get_loop())["_selector"], selectors.SelectSelector)


async def test_a_cancelled_run_has_recorded_what_came_before(tmp_path: Path) -> None:
    async with udp_responder() as target:
        settings = run_settings(target, tmp_path, "--rate", "1000", "--duration", "10")
        session = make_session(settings)
        engine = LoopedEngine(session, every_target(settings), Datagrams)
        running = asyncio.create_task(engine.run())
        while session.recording.tally.right < 10:  # noqa: ASYNC110 - the engine just counts
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()
    assert 10 <= session.recording.total.right <= session.recording.total.sent < 10_000
    assert session.recording.total.lost == 0
