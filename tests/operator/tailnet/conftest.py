"""The fixture that the tests of Tailscale Services share."""

from collections.abc import AsyncIterator

import pytest

from tests.operator.tailnet.servicetable import Ground, ground_of


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    """Yield a table of the Tailscale Services of one tailnet, with its control server."""
    async with ground_of() as made:
        yield made
