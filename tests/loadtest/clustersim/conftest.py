"""Fixtures of the simulated cluster's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.loadtest.clustersim.serving import Api, serving


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A running API server with a client."""
    async with serving() as running:
        yield running
