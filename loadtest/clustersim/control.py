"""A simulated control server, Tailscale's or Headscale's. Tests can make its answers wrong or late."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from clustersim.control_http import Api
from clustersim.tailnet import AuthKey, AuthKeyError, Device, Tailnet

__all__ = ["AuthKey", "AuthKeyError", "Control", "Device"]

_SHUTDOWN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer that the server sends instead of the usual one."""

    status: int
    text: str
    headers: Mapping[str, str]


@dataclass(slots=True)
class _Fault:
    """A fault of the next *left* requests.

    It concerns requests whose path template contains *path*, and whose HTTP method is *method*. An empty *method*
    stands for all methods.
    """

    left: int
    path: str
    answer: _Answer | None = None
    """The answer to send, or None to close the connection without an answer."""
    carried_out: bool = False
    """True if the server carries the request out, and only its answer is wrong or missing."""
    method: str = ""


class Control(Tailnet):
    """A tailnet that is served over HTTP.

    *requests* counts all requests, failed ones too, by method and path template, such as ``("DELETE",
    "/api/v2/device/{id}")``. *user_agents* are the programs that sent them. The server waits for *latency* seconds
    before each answer. If several faults fit a request, the one that was set first applies. A *path* limits a fault to
    requests whose path template contains it, and a *method* to requests with this HTTP method.
    """

    def __init__(
        self,
        domain: str = "tail1234.ts.net",
        headscale: bool = False,
        clock: Callable[[], float] = time.time,
        first: int = 1,
    ) -> None:
        super().__init__(domain, headscale, clock, first)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.user_agents: set[str] = set()
        self.latency: float = 0
        self._faults: list[_Fault] = []

    def fail(
        self, status: int = 503, *, count: int = 1, path: str = "", method: str = "", retry_after: str = ""
    ) -> None:
        """Answer the next *count* requests with an error that has the HTTP code *status*."""
        headers = {"Retry-After": retry_after} if retry_after else {}
        answer = _Answer(status, f'{{"message": "failing with {status}"}}', headers)
        self._faults.append(_Fault(count, path, answer, method=method))

    def answer(
        self,
        text: str,
        *,
        status: int = 200,
        path: str = "",
        method: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer the next request with *text*. It is JSON unless *headers* have another Content-Type."""
        self._faults.append(_Fault(1, path, _Answer(status, text, headers or {}), method=method))

    def answer_nonsense(self, *, count: int = 1, path: str = "") -> None:
        """Answer the next *count* requests with 200 and a web page, as a captive portal does."""
        self._faults.append(
            _Fault(count, path, _Answer(200, "<html>Please log in</html>", {"Content-Type": "text/html"}))
        )

    def refuse(self, *, count: int = 1, path: str = "") -> None:
        """Drop the connection at each of the next *count* requests, without carrying them out."""
        self._faults.append(_Fault(count, path))

    def lose_answers(self, *, count: int = 1, path: str = "", method: str = "") -> None:
        """Carry out the next *count* requests, and drop the connection instead of an answer."""
        self._faults.append(_Fault(count, path, carried_out=True, method=method))

    def heal(self) -> None:
        """End all faults, and answer without latency again."""
        self._faults.clear()
        self.latency = 0

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve the API during the block, on a free port if *port* is 0.

        Yield its base URL, without a slash at the end.
        """
        api = Api(self)
        application = web.Application(middlewares=[self._meddle, api.refusals])
        application.add_routes(api.routes())
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            bound: tuple[str, int] = runner.addresses[0][:2]
            yield f"http://[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"http://{bound[0]}:{bound[1]}"
        finally:
            await runner.cleanup()

    @web.middleware
    async def _meddle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = _template(request)
        self.requests[request.method, path] += 1
        self.user_agents.add(request.headers.get("User-Agent", ""))
        await asyncio.sleep(self.latency)
        fault = self._next_fault(request.method, path)
        if fault is None:
            return await handler(request)
        if fault.carried_out:
            await handler(request)
        if fault.answer is None:
            return _drop(request)
        answer = fault.answer
        headers = {"Content-Type": "application/json", **answer.headers}
        return web.Response(status=answer.status, body=answer.text.encode(), headers=headers)

    def _next_fault(self, method: str, path: str) -> _Fault | None:
        fault = next((each for each in self._faults if each.path in path and each.method in ("", method)), None)
        if fault is not None:
            fault.left -= 1
            if fault.left <= 0:
                self._faults.remove(fault)
        return fault


def _template(request: web.Request) -> str:
    """Return the template of the route that serves *request*, or its path if no route does."""
    resource = request.match_info.route.resource
    template = resource.canonical if resource else "/{path}"
    return request.path if template == "/{path}" else template


def _drop(request: web.Request) -> web.Response:
    """Cut the connection of *request*, and return a response that aiohttp needs but the client never gets."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
