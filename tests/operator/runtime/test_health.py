import asyncio
from collections import Counter

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from tsoperator.runtime.health import Check, HealthServer, encoded
from tsoperator.runtime.serving import ListenError, parse_listen


def fails() -> str:
    return "no list of services yet"


def breaks() -> str:
    raise ValueError("bug")


async def fetch(address: str, path: str, accept: str = "*/*") -> tuple[int, str, str]:
    """Ask for *path* in a format that *accept* allows; return the answer's status, text and content type."""
    async with (
        asyncio.timeout(30),
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{path}", headers={"Accept": accept}) as response,
    ):
        return response.status, await response.text(), response.headers["Content-Type"]


@pytest.mark.parametrize(
    ("checks", "status", "text"),
    [
        ({}, 200, "ok\n"),
        ({"leader": lambda: ""}, 200, "[+] leader: ok\nok\n"),
        ({"leader": lambda: "", "caches": fails}, 503, "[+] leader: ok\n[-] caches: no list of services yet\nfailed\n"),
        ({"caches": breaks}, 503, "[-] caches: the check failed: ValueError('bug')\nfailed\n"),
    ],
)
async def test_the_readiness_probe_and_the_liveness_probe_each_run_their_own_checks(
    checks: dict[str, Check], status: int, text: str
) -> None:
    others: dict[str, Check] = {"others": fails}
    for path, ready, alive in (("/readyz", checks, others), ("/healthz", others, checks)):
        async with HealthServer("127.0.0.1:0", CollectorRegistry(), ready, alive=alive) as address:
            assert (await fetch(address, path))[:2] == (status, text)


async def test_a_health_check_runs_at_each_request() -> None:
    problems = ["not yet"]
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {"caches": lambda: "".join(problems)}) as address:
        before, _, _ = await fetch(address, "/readyz")
        problems.clear()
        after, _, _ = await fetch(address, "/readyz")
    assert (before, after) == (503, 200)


async def test_a_health_server_fails_if_its_port_is_in_use_and_frees_the_port_at_its_end() -> None:
    async with HealthServer("127.0.0.1:0", CollectorRegistry(), {}) as address:
        with pytest.raises(ListenError, match=f"on {address}: Address already in use"):
            await HealthServer(address, CollectorRegistry(), {}).__aenter__()
    for wanted in (address, ""):
        async with HealthServer(wanted, CollectorRegistry(), {}) as given:
            assert given == wanted


class Samples(Collector):
    def collect(self) -> list[Metric]:
        """Return a gauge with many samples, and other metrics around it."""
        many = GaugeMetricFamily("tsoperator_expiry", "When.", labels=["domain"])
        for number in range(2000):
            many.add_metric([f"# {number}.example.org"], number)
        return [CounterMetricFamily("tsoperator_reconciles", "How many.", 7), many, GaugeMetricFamily("none", "None.")]


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
async def test_other_tasks_run_while_the_metrics_page_is_encoded_as_the_prometheus_client_encodes_it(
    kind: str,
) -> None:
    registry, turns = CollectorRegistry(), Counter[str]()
    registry.register(Samples())
    encode, _ = choose_encoder(kind)

    async def turn() -> None:
        while True:
            turns["others"] += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(turn())
    assert await encoded(encode, registry.collect()) == encode(registry)
    others.cancel()
    assert turns["others"] >= 6


async def count_proxies() -> Metric:
    return GaugeMetricFamily("tsoperator_proxies", "Proxies.", 7)


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
async def test_the_metrics_page_shows_the_metrics_of_the_registry_and_metrics_that_are_counted_at_each_request(
    kind: str,
) -> None:
    registry = CollectorRegistry()
    Gauge("tsoperator_leader", "Whether it leads.", registry=registry).set(1)
    async with HealthServer("127.0.0.1:0", registry, {}, counts=[count_proxies]) as address:
        _, text, content_type = await fetch(address, "/metrics", accept=kind)
    assert "\ntsoperator_leader 1.0\n" in text
    assert "\ntsoperator_proxies 7.0\n" in text
    assert content_type.startswith(kind)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("192.0.2.1:80", "192.0.2.1", 80),
        ("localhost:0", "localhost", 0),
        ("[2001:db8::1]:80", "2001:db8::1", 80),
        ("[::]:65535", "::", 65535),
    ],
)
def test_a_listen_address_is_parsed_into_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_listen(text) == (host, port)


@pytest.mark.parametrize("text", ["8080", "192.0.2.1", "192.0.2.1:", ":http", ":65536", "2001:db8::1:80", ":-1", ":²"])
def test_an_invalid_listen_address_is_refused(text: str) -> None:
    with pytest.raises(ListenError, match="is not ADDR:PORT"):
        parse_listen(text)
