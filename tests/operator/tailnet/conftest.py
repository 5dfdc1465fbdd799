"""The fixture that the tests of Tailscale Services share."""

from collections.abc import AsyncIterator

import pytest

from tests.operator.tailnet.servicetable import Ground, ground_of


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    """Known Tailscale Services of one tailnet."""
    async with ground_of() as made:
        yield made
