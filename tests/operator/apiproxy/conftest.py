"""Fixtures of the tests that run the proxy on real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from tests.support.apiproxy import Ground, grounded


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with grounded(tmp_path) as ground:
        yield ground


@pytest.hookimpl(tryfirst=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests on uvloop, because the API server proxy runs on uvloop."""
    return {"uvloop": uvloop.new_event_loop}
