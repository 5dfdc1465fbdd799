"""Probes and metrics over HTTP: /healthz, /readyz, /metrics."""

import os
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Check = Callable[[], str]
"""A function that returns words for what is wrong, or an empty string if nothing is."""


class ListenError(Exception):
    """An error: the operator can't listen on the address for probes and metrics."""


class HealthServer:
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
        self._listen = listen
        self._registry = registry
        self._checks = checks
        self._alive = alive or {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> str:
        """Listen, and return the bound ``ADDR:PORT``, empty if turned off.

        Raises:
            ListenError: *listen* is not an address, or we can't listen there.
        """
        if not self._listen:
            return ""
        host, port = parse_listen(self._listen)
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host or None, port).start()
        except OSError as error:
            await self._close()
            words = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ListenError(f"cannot serve probes and metrics on {self._listen}: {words}") from error
        bound_host, bound_port = self._runner.addresses[0][:2]
        return f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"

    async def __aexit__(self, *_exc: object) -> None:
        await self._close()

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _report(self._alive)

    async def _readyz(self, _request: web.Request) -> web.Response:
        return _report(self._checks)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def parse_listen(listen: str) -> tuple[str, int]:
    """Return host and port of ``ADDR:PORT``, ``[ADDR]:PORT`` or ``:PORT``; no host means every address.

    Raises:
        ListenError: it is none of these.
    """
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not bracketed):
        raise ListenError(f"{listen!r} is not ADDR:PORT, [ADDR]:PORT or :PORT")
    return (host[1:-1] if bracketed else host), int(port)


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
