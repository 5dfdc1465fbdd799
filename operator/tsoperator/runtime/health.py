"""Probes and metrics over HTTP: /healthz, /readyz, /metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.runtime.serving import HttpServer

Check = Callable[[], str]
"""A function that returns words for what is wrong, or an empty string if nothing is."""

Count = Callable[[], Awaitable[Metric]]
"""A function that counts many objects for a scrape, and returns the metric. It lets other tasks run meanwhile."""

Encode = Callable[[CollectorRegistry], bytes]
"""A function that writes the metrics of a registry in one of Prometheus' formats."""

_SAMPLES: Final = 500
"""The number of samples that are written before other tasks get their turn. This takes some milliseconds."""


class HealthServer(HttpServer):
    """Serves probes and metrics on *listen* while the context is open. An empty *listen* turns it off.

    ``/readyz`` passes when all of *checks* pass, and names those that fail. ``/healthz`` does the same for *alive*;
    without *alive* it only shows that the event loop runs. A check that raises has failed. ``/metrics`` shows the
    metrics of *registry* and of *counts*.
    """

    def __init__(
        self,
        listen: str,
        registry: CollectorRegistry,
        checks: Mapping[str, Check],
        alive: Mapping[str, Check] | None = None,
        counts: Sequence[Count] = (),
    ) -> None:
        self._registry = registry
        self._checks = checks
        self._alive = alive or {}
        self._counts = counts
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        super().__init__(listen, app, "probes and metrics")

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _report(self._alive)

    async def _readyz(self, _request: web.Request) -> web.Response:
        return _report(self._checks)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        counted = [await count() for count in self._counts]
        body = await encoded(encode, [*self._registry.collect(), *counted])
        return web.Response(body=body, headers={"Content-Type": content_type})


async def encoded(encode: Encode, metrics: Iterable[Metric]) -> bytes:
    """Return *metrics* as *encode* writes them. Let other tasks run meanwhile."""
    end = encode(CollectorRegistry())  # OpenMetrics marks the end
    blocks = list[bytes]()
    for metric in metrics:
        for number, part in enumerate(_parts(metric)):
            page = CollectorRegistry()
            page.register(_Given(part))
            text = encode(page).removesuffix(end)
            blocks.append(_without_head(text) if number else text)
            await asyncio.sleep(0)
    return b"".join([*blocks, end])


def _without_head(text: bytes) -> bytes:
    """Return *text* without the lines before the first sample, which say what the metric is."""
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def _parts(metric: Metric) -> Iterator[Metric]:
    """Yield copies of *metric* with at most `_SAMPLES` of its samples each, in their order.

    A metric that is no gauge is yielded whole, because its samples belong together.
    """
    count = max(len(metric.samples), 1)
    size = _SAMPLES if metric.type == "gauge" else count
    for first in range(0, count, size):
        part = copy(metric)
        part.samples = metric.samples[first : first + size]
        yield part


class _Given(Collector):
    """A collector of one metric, which was counted earlier."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """Return the metric; prometheus_client calls this."""
        return [self._metric]


def _report(checks: Mapping[str, Check]) -> web.Response:
    """Return the answer to a probe: a line for each of *checks*, and the HTTP status.

    The status is 503 if a check has failed. The lines are in the words of Kubernetes' own probes.
    """
    problems = {name: _problem(check) for name, check in checks.items()}
    lines = [f"[-] {name}: {problem}" if problem else f"[+] {name}: ok" for name, problem in problems.items()]
    failed = any(problems.values())
    text = "\n".join([*lines, "failed" if failed else "ok", ""])
    return web.Response(text=text, status=503 if failed else 200)


def _problem(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 (a broken check is an answer too, and the probe must get one)
        return f"the check failed: {error!r}"
