"""Probes and metrics of the API server proxy."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.health import HealthPages

from tests.support.apiproxy import Ground, until


class Probed:
    """A server for probes, and the problem that it shows."""

    def __init__(self) -> None:
        self.wrong = ""
        self.counts = ProxyCounts("auth")
        self.address = ("", 0)

    async def problem(self) -> str:
        return self.wrong

    async def ask(self, raw: str) -> tuple[str, str]:
        """Send the request *raw*; return the first line and the body of the answer, both empty if no answer comes."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(raw.encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        return head.split("\r\n")[0], body

    @asynccontextmanager
    async def serving(self, host: str, patience: float = 5.0) -> AsyncIterator[None]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as listener:
            self.address = listener.getsockname()[:2]
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(HealthPages(self.problem, self.counts.text, patience).serve(listener))
                yield
                serving.cancel()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_readiness_probe_shows_the_problem_and_the_liveness_probe_does_not(host: str) -> None:
    probed = Probed()
    async with probed.serving(host):
        assert await probed.ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n") == ("HTTP/1.1 200 OK", "ok\n")
        probed.wrong = "no token"
        assert await probed.ask("GET /readyz HTTP/1.1\r\n\r\n") == ("HTTP/1.1 503 Service Unavailable", "no token\n")
        assert await probed.ask("GET /healthz HTTP/1.1\r\n\r\n") == ("HTTP/1.1 200 OK", "ok\n")
        assert (await probed.ask("GET / HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 404 Not Found"


@pytest.mark.parametrize("raw", ["", "GET /healthz", "\r\n\r\n", "x" * 100_000])
async def test_the_server_for_probes_still_answers_after_an_odd_request(
    raw: str, caplog: pytest.LogCaptureFixture
) -> None:
    probed = Probed()
    async with probed.serving("127.0.0.1", patience=0.5):
        assert (await probed.ask(raw))[0] in {"", "HTTP/1.1 404 Not Found"}
        assert await probed.ask("GET /healthz HTTP/1.1\r\n\r\n") == ("HTTP/1.1 200 OK", "ok\n")
    assert caplog.messages == []


async def test_the_metrics_count_requests_refusals_connections_and_bytes(ground: Ground) -> None:
    probed = Probed()
    probed.counts = ground.counts
    async with ground.serving(), probed.serving("127.0.0.1"), ground.connected() as caller:
        await caller.ask()
        async with ground.connected("100.64.0.99:1") as unknown:
            await unknown.ask()
        await until(lambda: sum(ground.counts.requests.values()) == 2)
        _, text = await probed.ask("GET /metrics HTTP/1.1\r\n\r\n")
    found = {
        (sample.name.removeprefix("tsoperator_apiproxy_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    sizes = {name: found.pop(("bytes_total", name)) for name in ("to_api_server", "to_client")}
    assert sizes["to_client"] > sizes["to_api_server"] > 100
    found.pop(("connections_open",))
    assert found == {
        ("requests_total", "auth", "forwarded"): 1,
        ("requests_total", "auth", "refused"): 1,
        ("requests_total", "auth", "failed"): 0,
        ("refusals_total", "whois-unknown"): 1,
        ("connections_total",): 2,
        ("connections_refused_total", "all"): 0,
        ("connections_refused_total", "caller"): 0,
        ("session_recordings_total", "attempted"): 0,
        ("session_recordings_total", "uploaded"): 0,
        ("session_recordings_total", "failed"): 0,
        ("session_recordings_running",): 0,
        ("event_recordings_total", "attempted"): 0,
        ("event_recordings_total", "recorded"): 0,
        ("event_recordings_total", "failed"): 0,
    }
