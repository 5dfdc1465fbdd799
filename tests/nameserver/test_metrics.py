"""Tests of what Prometheus reads."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import dns.asyncquery
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.pages import serving_pages
from tsnameserver.reloads import Reloads
from tsnameserver.sockets import Endpoint, bind

from tests.nameserver.conftest import Running, running_server
from tests.nameserver.samples import make_query

RELOADS = Reloads(
    loaded=3, failed=1, names=6, ip4=44, ip6=2, serial=7, newest=1700000000.5,
    bounds=(0.1, 1.0), buckets=[2, 0, 1], seconds_sum=2.25,
)  # fmt: skip


class Scraped:
    """A server, and the samples of its page."""

    def __init__(self, server: Running, client: aiohttp.ClientSession) -> None:
        self.server = server
        self._client = client

    async def samples(self, name: str) -> dict[frozenset[str], float]:
        """Return the values of a series, by its labels but those of the server."""
        async with self._client.get("/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
        return {
            frozenset(sample.labels.values()) - {f"dns://127.0.0.1:{self.server.port}"}: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    async def ask(self, name: str, qtype: str, *, tcp: bool = False) -> None:
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        await send(make_query(name, qtype), self.server.host, port=self.server.port, timeout=3)


@pytest.fixture
async def scraped() -> AsyncIterator[Scraped]:
    listener = bind([], None, Endpoint("127.0.0.1", 0)).metrics
    assert listener is not None
    async with running_server(Endpoint("127.0.0.1", 0)) as server:
        pages = metrics_pages(Metrics([server.udp], [server.tcp], RELOADS))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving_pages(listener, pages), aiohttp.ClientSession(url) as client:
            yield Scraped(server, client)


async def test_queries_are_counted_by_what_they_ask_and_how(scraped: Scraped) -> None:
    for tcp in (False, True):
        await scraped.ask("db.tail1234.ts.net", "AAAA", tcp=tcp)
    await scraped.ask("no.ts.net", "AAAA")
    await scraped.ask("ts.net", "TYPE1000")
    requests = await scraped.samples("tsnameserver_dns_requests_total")
    assert requests[frozenset({"udp", "1", "AAAA"})] == 2
    assert requests[frozenset({"tcp", "1", "AAAA"})] == 1
    assert requests[frozenset({"udp", "1", "other"})] == 1
    responses = await scraped.samples("tsnameserver_dns_responses_total")
    assert responses[frozenset({"udp", "1", "NXDOMAIN"})] == 1
    assert responses[frozenset({"udp", "1", "NOERROR"})] == 2
    assert sum(responses.values()) == sum(requests.values()) == 4


async def test_the_share_of_the_fast_path_is_told(scraped: Scraped) -> None:
    for name in ("db.tail1234.ts.net", "no.ts.net", "example.org"):
        await scraped.ask(name, "A")
    paths = await scraped.samples("tsnameserver_dns_path_total")
    assert paths[frozenset({"udp", "1", "fast"})] == 2
    assert paths[frozenset({"udp", "1", "general"})] == 1


async def test_truncated_answers_and_connections_are_counted(scraped: Scraped) -> None:
    for tcp in (False, True):
        await scraped.ask("many.tail1234.ts.net", "A", tcp=tcp)
    assert (await scraped.samples("tsnameserver_dns_truncated_total"))[frozenset({"udp", "1"})] == 1
    assert await scraped.samples("tsnameserver_tcp_connections_total") == {frozenset(): 1}
    assert await scraped.samples("tsnameserver_tcp_connections_evicted_total") == {frozenset(): 0}


class Series(NamedTuple):
    name: str
    values: dict[frozenset[str], float]


def plain(value: float) -> dict[frozenset[str], float]:
    return {frozenset(): value}


SERIES = [
    Series("records", {frozenset({"1"}): 44, frozenset({"2"}): 2}),
    Series("names", plain(6)),
    Series("records_serial", plain(7)),
    Series("records_last_success_timestamp_seconds", plain(1700000000.5)),
    Series("reloads_total", {frozenset({"success"}): 3, frozenset({"failure"}): 1}),
    Series(
        "reload_duration_seconds_bucket",
        {frozenset({"0.1"}): 2, frozenset({"1.0"}): 2, frozenset({"+Inf"}): 3},
    ),
    Series("reload_duration_seconds_count", plain(3)),
    Series("reload_duration_seconds_sum", plain(2.25)),
    Series("dns_failures_total", {frozenset({"udp", "1"}): 0, frozenset({"tcp", "1"}): 0}),
    Series("dns_malformed_total", {frozenset({"udp", "1"}): 0, frozenset({"tcp", "1"}): 0}),
    Series("tcp_connections_open", plain(0)),
    Series("udp_dropped_total", plain(0)),
    Series("udp_batched_total", plain(0)),
]


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
async def test_a_series_is_what_was_counted(scraped: Scraped, series: Series) -> None:
    assert await scraped.samples(f"tsnameserver_{series.name}") == series.values


@pytest.mark.parametrize("name", ["tsnameserver_build_info", "process_resident_memory_bytes", "process_open_fds"])
async def test_the_version_and_the_process_are_told(scraped: Scraped, name: str) -> None:
    assert [value > 0 for value in (await scraped.samples(name)).values()] == [True]
