"""Tests of the metrics page."""

import errno
import re
import socket
import time
from contextlib import closing, suppress
from pathlib import Path

import dns.asyncquery
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.reloads import Reloads, Watched
from tsnameserver.snapshot import Snapshot
from tsnameserver.sockets import Endpoint, bind
from tsnameserver.udp import UdpServer
from tsnameserver.zone import Serving

from tests.nameserver.conftest import Running
from tests.nameserver.samples import make_query, sample_zone


def reloads() -> Reloads:
    made = Reloads(
        loaded=3, failed=1, names=6, ip4=44, ip6=2, serial=7, newest=1700000000.5,
        bounds=(0.1, 1.0), buckets=[0, 0, 0], source="file",
    )  # fmt: skip
    for seconds in (0.1, 0.0, 2.0):
        made.observe(seconds)
    return made


def page(metrics: Metrics) -> str:
    shown = metrics_pages(metrics)["/metrics"]()
    assert shown.content_type.startswith("text/plain; version=0.0.4")
    return shown.text


@pytest.fixture
def metrics(server: Running) -> Metrics:
    return Metrics([server.udp], [server.tcp], reloads(), Watched(True, 1700000001.5), {"tcp": 2})


def samples(metrics: Metrics, name: str) -> dict[str, float]:
    """Return the values of the metric *name* by their labels, without the label of the server."""
    return {
        " ".join(value for label, value in sample.labels.items() if label != "server"): sample.value
        for family in text_string_to_metric_families(page(metrics))
        for sample in family.samples
        if sample.name == name
    }


def counted(metrics: Metrics, *names: str) -> dict[str, dict[str, float]]:
    """Return, for each counter in *names*, the values that aren't 0, by their labels."""
    found = {name: samples(metrics, f"tsnameserver_{name}_total") for name in names}
    return {name: {labels: value for labels, value in values.items() if value} for name, values in found.items()}


async def test_queries_are_counted_by_type_rcode_and_path_on_the_metrics_page(
    server: Running, metrics: Metrics
) -> None:
    udp, tcp = dns.asyncquery.udp, dns.asyncquery.tcp
    many = ("many.tail1234.ts.net", "A")
    missing, odd, outside = ("no.ts.net", "AAAA"), ("ts.net", "TYPE1000"), ("example.org", "A")
    for send, asked in ((udp, many), (tcp, many), (udp, missing), (udp, odd), (udp, outside)):
        await send(make_query(*asked), server.host, port=server.port, timeout=3)
    expected = {
        "dns_requests": {"udp 1 A": 2, "udp 1 AAAA": 1, "udp 1 other": 1, "tcp 1 A": 1},
        "dns_responses": {"udp 1 NOERROR": 2, "udp 1 NXDOMAIN": 1, "udp 1 REFUSED": 1, "tcp 1 NOERROR": 1},
        "dns_path": {"udp 1 fast": 3, "udp 1 general": 1, "tcp 1 fast": 1},
        "dns_truncated": {"udp 1": 1},
        "tcp_connections": {"": 1},
    }
    assert counted(metrics, *expected) == expected


async def test_the_udp_and_tcp_servers_have_separate_metrics(server: Running, metrics: Metrics) -> None:
    udp, tcp = server.udp, server.tcp
    udp.failures, tcp.failures = 1, 2
    udp.counts.malformed, tcp.counts.malformed = 3, 4
    udp.unsent[errno.EPERM], udp.unsent[0] = 8, 9
    tcp.evicted = 6
    expected = {
        "dns_failures": {"udp 1": 1, "tcp 1": 2},
        "dns_malformed": {"udp 1": 3, "tcp 1": 4},
        "udp_unsent": {"0": 9, "EPERM": 8},
        "tcp_connections_evicted": {"": 6},
    }
    assert counted(metrics, *expected) == expected
    assert samples(metrics, "tsnameserver_udp_unsent_total").keys() == {"0", "EPERM", "EINVAL", "ENOBUFS", "EAGAIN"}
    for name in ("udp_compiled", "tcp_connections_open", "udp_dropped_total"):
        assert samples(metrics, f"tsnameserver_{name}") == {"": 0}


def test_the_metrics_show_packets_that_were_dropped_because_a_buffer_was_full() -> None:
    sockets = bind([Endpoint("::1", 0)], None)
    bound = sockets.pairs[0].udp
    server = UdpServer(bound, Serving(sample_zone()))
    with closing(sockets), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(100):
            client.sendto(b"?", bound.getsockname())
        shown = page(Metrics([server], [], reloads()))
        bound.setblocking(False)
        room = 0
        with suppress(BlockingIOError):
            while bound.recv(1):
                room += 1
    assert room < 100
    where = f"dns://[::1]:{server.endpoint.port}"
    assert f'tsnameserver_udp_dropped_total{{server="{where}"}} {100 - room}\n' in shown
    assert f'tsnameserver_dns_malformed_total{{server="{where}",proto="udp",family="2"}} 0\n' in shown


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
    "reload_duration_seconds_sum": {"": 2.1},
}


async def test_the_metrics_show_the_records_their_source_and_their_reloads(metrics: Metrics) -> None:
    assert {name: samples(metrics, f"tsnameserver_{name}") for name in SERIES} == SERIES


@pytest.mark.parametrize(
    ("watched", "snapshot", "told"),
    [
        (None, None, []),
        (Watched(), None, ["api_followed 0", "api_last_heard_timestamp_seconds 0.0"]),
        (None, Snapshot(Path("/none")), ["snapshot_timestamp_seconds 0.0"]),
    ],
    ids=["neither", "an API server", "a snapshot"],
)
def test_a_nameserver_without_api_server_or_snapshot_has_no_series_about_them(
    watched: Watched | None, snapshot: Snapshot | None, told: list[str]
) -> None:
    shown = page(Metrics([], [], reloads(), watched, snapshot=snapshot))
    assert re.findall(r"^tsnameserver_((?:api|snapshot)_.*)$", shown, flags=re.MULTILINE) == told


async def test_the_metrics_show_the_version_the_start_time_and_the_process(metrics: Metrics) -> None:
    started = samples(metrics, "process_start_time_seconds")
    assert started == samples(metrics, "process_start_time_seconds")
    assert time.time() - 60 < started[""] <= time.time()
    least = {"tsnameserver_build_info": 1, "process_resident_memory_bytes": 10e6, "process_open_fds": 3}
    for name, number in least.items():
        assert [value >= number for value in samples(metrics, name).values()] == [True]
