"""Serves the operator's report over HTTP: as JSON at /status, and as a page for a browser at /.

Only the leader has a report; a standby answers with the name of the leader. The page contains no data: its script reads
/status, and shows all data as text, never as HTML.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from aiohttp import web

from tsoperator.runtime.serving import HttpServer, ListenError
from tsoperator.status.parts import StatusReport

log = logging.getLogger(__name__)

STATUS: Final = "/status"
"""The path of the report."""

_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PAGE: Final = Path(__file__).parent / "page"
_FILES: Final = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
"""The names of the page's files, and their media types."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class StatusServer(HttpServer):
    """Serves the report at the address *listen* while the context is open. An empty *listen* turns the server off.

    *report* returns the report; its argument is the time at which this process began to lead. *leader* returns the
    name of the Pod that leads; empty if that isn't known.
    """

    def __init__(
        self,
        listen: str,
        report: Callable[[datetime], Awaitable[StatusReport]],
        leader: Callable[[], str],
        now: Callable[[], datetime],
    ) -> None:
        self._report = report
        self._leader = leader
        self._now = now
        self._leading_since: datetime | None = None
        self._turn = asyncio.Lock()
        app = web.Application(middlewares=[_refuse_other_hosts])
        app.router.add_get(STATUS, self._status)
        app.router.add_get("/", _file)
        app.router.add_get("/{name}", _file)
        app.on_response_prepare.append(_add_headers)
        super().__init__(listen, app, "the status")

    async def __aenter__(self) -> str:
        """Listen, and return the bound ``ADDR:PORT``; empty if the server is turned off or can't listen.

        The operator also works without the report, so only a warning is logged if another process has the port.
        """
        try:
            return await super().__aenter__()
        except ListenError as error:
            log.warning("%s; set OPERATOR_STATUS_ADDR to another address, or to nothing", error)
            return ""

    async def lead(self) -> None:
        """Serve the report until cancelled. Call this while this process leads."""
        self._leading_since = self._now()
        try:
            await asyncio.Event().wait()
        finally:
            self._leading_since = None

    async def _status(self, request: web.Request) -> web.Response:
        if "text/html" in request.headers.get("Accept", ""):
            return await _file(request)
        async with self._turn:  # several requests at once would only slow each other down
            if self._leading_since is None:
                return self._standby()
            report = await self._report(self._leading_since)
        tag = {"ETag": f'"{report.digest}"'}
        if any(each.value == report.digest for each in request.if_none_match or ()):
            return web.Response(status=304, headers=tag)
        return web.Response(body=report.body, content_type="application/json", headers=tag)

    def _standby(self) -> web.Response:
        leader = self._leader()
        words = f"this Pod does not lead; ask {leader or 'the leader'}"
        return web.json_response({"error": words, "leader": leader}, status=503)


async def _file(request: web.Request) -> web.Response:
    """Return the file that the URL of *request* names; the page itself if the URL names no file.

    Raises HTTPNotFound if the page has no such file.
    """
    name = request.match_info.get("name", "page.html")
    if name not in _FILES:
        raise web.HTTPNotFound
    return web.Response(body=(_PAGE / name).read_bytes(), content_type=_FILES[name], charset="utf-8")


@web.middleware
async def _refuse_other_hosts(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse a request for a foreign host name: a web site could point its name at our address to read the report."""
    host = request.host if request.host.endswith("]") else request.host.rpartition(":")[0] or request.host
    if host.lower() not in _HOSTS:
        raise web.HTTPForbidden(text="the host of the URL must be localhost, 127.0.0.1 or [::1]\n")
    return await handler(request)


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
