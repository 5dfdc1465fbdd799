"""Probes and metrics over HTTP: /healthz, /readyz, /metrics."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.runtime.serving import HttpServer

Check = Callable[[], str]
"""A function that returns words for what is wrong, or an empty string if nothing is."""

Count = Callable[[], Awaitable[Metric]]
"""A function that counts many objects for a scrape, and lets other tasks run meanwhile."""


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
        page = CollectorRegistry()
        page.register(_Counted([await count() for count in self._counts]))
        page.register(self._registry)
        return web.Response(body=encode(page), headers={"Content-Type": content_type})


class _Counted(Collector):
    """Metrics that have been counted already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; prometheus_client calls this."""
        return self._metrics


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
