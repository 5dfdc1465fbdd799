"""A control server of each kind over HTTP, and a client of it. The pauses of the client take no time."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from clustersim.control import Control
from pydantic import SecretStr
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.virtual_time import Clock, Pauses


@pytest.fixture
def clock() -> Clock:
    return Clock(now=1_700_000_000.0)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def retry(pauses: Pauses) -> Retry:
    return Retry(sleep=pauses, jitter=lambda: 1.0)


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest, clock: Clock) -> Control:
    if request.param == "headscale":
        return Control("tail.example.org", headscale=True, clock=clock)
    return Control(clock=clock)


@pytest.fixture
async def url(control: Control) -> AsyncIterator[str]:
    async with control.serve() as url:
        yield url


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def credentials(control: Control) -> Credentials:
    return Credentials(control.client_id, SecretStr(control.client_secret))


@pytest.fixture
def client(
    session: aiohttp.ClientSession, url: str, credentials: Credentials, clock: Clock, retry: Retry
) -> TailnetClient:
    return TailnetClient(session, url, lambda: credentials, clock=clock, retry=retry)
