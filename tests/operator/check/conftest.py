"""A Pod of the operator with the endpoints that a check requests."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Gauge
from tsoperator.check.endpoint import Endpoint, endpoint
from tsoperator.runtime.health import HealthServer


class Operator:
    """A Pod of the operator, with probes and metrics. *at* is its address. Its first *until_ready* probes fail."""

    def __init__(self) -> None:
        self.until_ready = 0
        self.at = Endpoint("", 0)

    def look(self) -> str:
        self.until_ready -= 1
        return "not listed yet: services" if self.until_ready >= 0 else ""


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    operator = Operator()
    registry = CollectorRegistry()
    Gauge("tsoperator_leading", "Whether it leads.", registry=registry).set(1)
    preflight = Gauge("tsoperator_preflight", "What passes.", ["check", "tailnet"], registry=registry)
    preflight.labels("api", "").set(1)
    async with HealthServer("127.0.0.1:0", registry, {"cache": operator.look}) as address:
        operator.at = endpoint(address)
        yield operator
