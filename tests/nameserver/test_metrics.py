"""Tests of what Prometheus reads."""

import errno
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import aiohttp
import dns.asyncquery
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.pages import serving_pages
from tsnameserver.reloads import Reloads, Watched
from tsnameserver.snapshot import Snapshot
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving

from tests.nameserver.conftest import Running, running_server
from tests.nameserver.samples import make_query, sample_zone

RELOADS = Reloads(
    loaded=3, failed=1, names=6, ip4=44, ip6=2, serial=7, newest=1700000000.5,
    bounds=(0.1, 1.0), buckets=[2, 0, 1], seconds_sum=2.25, source="file",
)  # fmt: skip


class Scraped:
    """A server, and the samples of its page."""

    def __init__(self, server: Running, client: aiohttp.ClientSession) -> None:
        self.server = server
        self._client = client

    async def samples(self, name: str) -> dict[str, float]:
        """Return the values of a series by its labels, without that of the server."""
        async with self._client.get("/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
        return {
            " ".join(value for label, value in sample.labels.items() if label != "server"): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    async def counted(self, name: str) -> dict[str, float]:
        """Return the values of a counter that aren't 0."""
        samples = await self.samples(f"tsnameserver_{name}_total")
        return {labels: value for labels, value in samples.items() if value}

    async def ask(self, name: str, qtype: str, *, tcp: bool = False) -> None:
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        await send(make_query(name, qtype), self.server.host, port=self.server.port, timeout=3)


@pytest.fixture
async def scraped() -> AsyncIterator[Scraped]:
    listener = bind([], None, Endpoint("127.0.0.1", 0)).metrics
    assert listener is not None
    async with running_server(Endpoint("127.0.0.1", 0)) as server:
        pages = metrics_pages(Metrics([server.udp], [server.tcp], RELOADS, Watched(True, 1700000001.5), {"tcp": 2}))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving_pages(listener, pages), aiohttp.ClientSession(url) as client:
            yield Scraped(server, client)


async def test_queries_are_counted_by_what_they_ask_and_how(scraped: Scraped) -> None:
    for tcp in (False, True):
        await scraped.ask("many.tail1234.ts.net", "A", tcp=tcp)
    for name, qtype in (("no.ts.net", "AAAA"), ("ts.net", "TYPE1000"), ("example.org", "A")):
        await scraped.ask(name, qtype)
    assert await scraped.counted("dns_requests") == {"udp 1 A": 2, "udp 1 AAAA": 1, "udp 1 other": 1, "tcp 1 A": 1}
    assert await scraped.counted("dns_responses") == {
        "udp 1 NOERROR": 2, "udp 1 NXDOMAIN": 1, "udp 1 REFUSED": 1, "tcp 1 NOERROR": 1,
    }  # fmt: skip
    assert await scraped.counted("dns_path") == {"udp 1 fast": 3, "udp 1 general": 1, "tcp 1 fast": 1}
    assert await scraped.counted("dns_truncated") == {"udp 1": 1}
    assert await scraped.counted("tcp_connections") == {"": 1}


async def test_servers_are_told_of_with_their_own_numbers(scraped: Scraped) -> None:
    server = scraped.server
    server.udp.failures, server.tcp.failures = 1, 2
    server.udp.counts.malformed, server.tcp.counts.malformed = 3, 4
    server.udp.unsent[errno.EPERM], server.udp.unsent[0] = 8, 9
    server.tcp.evicted, server.tcp.accepted = 6, 7
    assert await scraped.counted("dns_failures") == {"udp 1": 1, "tcp 1": 2}
    assert await scraped.counted("dns_malformed") == {"udp 1": 3, "tcp 1": 4}
    assert await scraped.samples("tsnameserver_udp_compiled") == {"": 0}
    unsent = await scraped.samples("tsnameserver_udp_unsent_total")
    assert unsent == {"0": 9, "EPERM": 8, "EINVAL": 0, "ENOBUFS": 0}
    assert await scraped.counted("tcp_connections_evicted") == {"": 6}
    assert await scraped.samples("tsnameserver_tcp_connections_open") == {"": 0}
    assert await scraped.samples("tsnameserver_udp_dropped_total") == {"": 0}


def test_packets_without_room_are_told() -> None:
    sockets = bind([Endpoint("::1", 0)], None)
    bound = sockets.pairs[0].udp
    server = UdpServer(bound, Serving(sample_zone()))
    with closing(sockets), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(100):
            client.sendto(b"", bound.getsockname())
        page = metrics_pages(Metrics([server], [], RELOADS))["/metrics"]().text
        dropped = server.dropped() or 0
    assert dropped > 0
    where = f"dns://[::1]:{server.endpoint.port}"
    assert f'tsnameserver_udp_dropped_total{{server="{where}"}} {dropped}\n' in page
    assert f'tsnameserver_dns_malformed_total{{server="{where}",proto="udp",family="2"}} 0\n' in page


SERIES = {
    "records": {"1": 44, "2": 2},
    "names": {"": 6},
    "records_serial": {"": 7},
    "records_last_success_timestamp_seconds": {"": 1700000000.5},
    "records_source": {"api": 0, "snapshot": 0, "file": 1},
    "api_followed": {"": 1},
    "api_last_heard_timestamp_seconds": {"": 1700000001.5},
    "restarts_total": {"tcp": 2},
    "reloads_total": {"success": 3, "failure": 1},
    "reload_duration_seconds_bucket": {"0.1": 2, "1.0": 2, "+Inf": 3},
    "reload_duration_seconds_count": {"": 3},
    "reload_duration_seconds_sum": {"": 2.25},
}


async def test_reloads_are_told_as_they_were_counted(scraped: Scraped) -> None:
    assert {name: await scraped.samples(f"tsnameserver_{name}") for name in SERIES} == SERIES


class Absent(NamedTuple):
    watched: Watched | None
    snapshot: Snapshot | None
    shown: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Absent(None, None, []),
        Absent(Watched(), None, ["api_followed 0", "api_last_heard_timestamp_seconds 0.0"]),
        Absent(None, Snapshot(Path("/none")), ["snapshot_timestamp_seconds 0.0"]),
    ],
)
def test_an_api_server_or_a_snapshot_that_there_is_not_to_be_has_no_series(case: Absent) -> None:
    page = metrics_pages(Metrics([], [], RELOADS, case.watched, snapshot=case.snapshot))["/metrics"]().text
    shown = re.findall(r"^tsnameserver_((?:api|snapshot)_.*)$", page, flags=re.MULTILINE)
    assert shown == case.shown


async def test_the_start_is_told_as_it_was(scraped: Scraped) -> None:
    first, second = [await scraped.samples("process_start_time_seconds") for _ in range(2)]
    assert first == second
    assert time.time() - 60 < first[""] <= time.time()


async def test_the_version_and_the_process_are_told(scraped: Scraped) -> None:
    least = {"tsnameserver_build_info": 1, "process_resident_memory_bytes": 10e6, "process_open_fds": 3}
    for name, number in least.items():
        assert [value >= number for value in (await scraped.samples(name)).values()] == [True]
