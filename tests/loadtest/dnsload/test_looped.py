"""Tests of the features that only the engine on asyncio has."""

import asyncio
import selectors

from dnsload.looped import fine_loop


def test_the_event_loop_of_the_engine_on_asyncio_sleeps_with_microsecond_precision() -> None:
    with asyncio.Runner(loop_factory=fine_loop) as runner:
        # No public attribute shows the selector of the loop. With epoll, the loop would wait for whole milliseconds.
        assert isinstance(vars(runner.get_loop())["_selector"], selectors.SelectSelector)
