"""Probes over HTTP: /healthz while the server works, /readyz once it has records."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

_SHUTDOWN_SECONDS = 0.1


@asynccontextmanager
async def health_server(
    listener: socket.socket, healthy: Callable[[], bool], ready: Callable[[], bool]
) -> AsyncIterator[None]:
    """Answer probes on *listener*."""

    async def healthz(_: web.Request) -> web.Response:
        return _verdict("working", good=healthy())

    async def readyz(_: web.Request) -> web.Response:
        return _verdict("ready", good=ready())

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


def _verdict(what: str, *, good: bool) -> web.Response:
    return web.Response(text=f"{what}\n" if good else f"not {what}\n", status=200 if good else 503)
