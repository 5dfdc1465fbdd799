"""Probes and metrics over HTTP: /healthz, /readyz, /metrics."""

from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tsoperator.runtime.serving import HttpServer

Check = Callable[[], str]
"""A function that returns words for what is wrong, or an empty string if nothing is."""


class HealthServer(HttpServer):
    """Serves probes and metrics on *listen* while the context is open. An empty *listen* turns it off.

    ``/readyz`` passes when all of *checks* pass, and names those that fail. ``/healthz`` does the same for *alive*;
    without *alive* it only shows that the event loop runs. A check that raises has failed.
    """

    def __init__(
        self,
        listen: str,
        registry: CollectorRegistry,
        checks: Mapping[str, Check],
        alive: Mapping[str, Check] | None = None,
    ) -> None:
        self._registry = registry
        self._checks = checks
        self._alive = alive or {}
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
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


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
