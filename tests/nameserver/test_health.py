"""Tests of the probes."""

import aiohttp
import pytest
from tsnameserver.health import health_server
from tsnameserver.sockets import Endpoint, bind


@pytest.mark.parametrize("good", [True, False])
async def test_each_probe_tells_its_own_truth(good: bool) -> None:
    listener = bind([], Endpoint("127.0.0.1", 0)).health
    assert listener is not None
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        health_server(listener, healthy=lambda: good, ready=lambda: not good),
        aiohttp.ClientSession(url) as client,
    ):
        statuses = []
        for path in ("/healthz", "/readyz", "/other"):
            async with client.get(path) as response:
                statuses.append(response.status)
    assert statuses == ([200, 503, 404] if good else [503, 200, 404])
