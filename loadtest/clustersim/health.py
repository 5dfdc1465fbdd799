"""An HTTP proxy through which a program outside the simulated cluster reaches the health ports behind Services.

The proxy answers a request for ``http://SERVICE.NAMESPACE.svc.DOMAIN:PORT/healthz`` in place of a random Pod of the
Service. If the Service leads to no Pod, the proxy cuts the connection, while kube-proxy on a node would refuse it.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from clustersim.controller import Key
from clustersim.routing import backends
from clustersim.store import Store

PATH = "/healthz"
_SHUTDOWN_SECONDS = 0.1

Answer = tuple[int, Mapping[str, str]]
"""The answer of a Pod to a health request: its HTTP status and its headers."""


class HealthProxy:
    """Forwards requests to Pods. *ask* takes an address and a port, and returns the Pod's answer or None."""

    def __init__(self, store: Store, ask: Callable[[str, int], Answer | None], seed: int = 0) -> None:
        self._store = store
        self._ask = ask
        self._random = random.Random(seed)  # noqa: S311  a choice that a test can repeat

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Run the proxy during the block, on a free port if *port* is 0. Yield the URL of the proxy."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield f"http://{host}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        name, namespace, *_ = [*(request.url.host or "").split("."), ""]
        found = backends(self._store, Key(namespace, name), request.url.port or 80)
        answer = self._ask(*self._random.choice(found)) if found else None
        if answer is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)
        status, headers = answer
        if request.path != PATH:
            return web.Response(status=404)
        return web.Response(status=status, headers=headers, text="ok" if status == 200 else "")
