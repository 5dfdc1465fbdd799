"""Fixtures of the tests that run the proxy on real sockets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.apiproxy import Ground, grounded


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with grounded(tmp_path) as ground:
        yield ground
