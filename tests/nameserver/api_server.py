"""A small API server that serves ConfigMaps to the nameserver's tests."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

LABELS = "tailscale.com/managed=true,tailscale.com/parent-resource-type=nameserver"


class ApiServer:
    """A small API server. It serves lists and watches of ConfigMaps like the real one, and fails on request."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.refuse_with = 0
        self.refuse_watches_with = 0
        self.asked: list[web.Request] = []
        self.arrivals: asyncio.Queue[web.Request] = asyncio.Queue()
        self.url = ""
        self._watchers: list[asyncio.Queue[dict[str, Any] | None]] = []
        self._events: list[dict[str, Any]] = []

    def write(self, name: str, document: str | None) -> None:
        """Create a ConfigMap, or change it, so that it has this *document*. Without a *document* it has no data."""
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = {"metadata": {"name": name, "resourceVersion": str(self.version)}}
        if document is not None:
            self.objects[name]["data"] = {"records.json": document}
        self._send(kind, self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        self._send("DELETED", {**gone, "metadata": {"name": name, "resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        """Send a bookmark event with a higher resource version to the watchers. No object changes."""
        self.version += 1
        self._send("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def expire(self) -> None:
        """Tell the watchers that their resource version is too old."""
        self._send("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})

    def end_watches(self) -> None:
        """End every watch, as the API server does after the watch's time-out."""
        for watcher in self._watchers:
            watcher.put_nowait(None)

    def drop_connections(self) -> None:
        """Reset the connection of every watch, like a server that crashes."""
        for request in self.watches:
            if request.transport is not None:
                request.transport.abort()

    @property
    def watches(self) -> list[web.Request]:
        return [request for request in self.asked if "watch" in request.query]

    @property
    def lists(self) -> list[web.Request]:
        return [request for request in self.asked if "watch" not in request.query]

    def _send(self, kind: str, obj: dict[str, Any]) -> None:
        event = {"type": kind, "object": obj}
        if kind != "ERROR":
            self._events.append(event)
        for watcher in self._watchers:
            watcher.put_nowait(event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.arrivals.put_nowait(request)
        if status := self.refuse_with or ("watch" in request.query and self.refuse_watches_with):
            return web.json_response({"kind": "Status", "code": status}, status=status)
        if "watch" not in request.query:
            return web.json_response(self._page(request))
        return await self._watch(request)

    def _page(self, request: web.Request) -> dict[str, Any]:
        """Return a page of the list. Its continue token is the number of the first item of the next page."""
        metadata = {"resourceVersion": str(self.version)}
        first = int(request.query.get("continue", 0))
        past = first + int(request.query.get("limit", len(self.objects)))
        if past < len(self.objects):
            metadata["continue"] = str(past)
        return {"metadata": metadata, "items": list(self.objects.values())[first:past]}

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        watcher: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        for event in self._events:
            if int(event["object"]["metadata"]["resourceVersion"]) > int(request.query["resourceVersion"]):
                watcher.put_nowait(event)
        self._watchers.append(watcher)
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while event_or_end := await watcher.get():
                await response.write(json.dumps(event_or_end).encode() + b"\n")
        finally:
            self._watchers.remove(watcher)
        return response


@asynccontextmanager
async def api_server(namespace: str, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    server = ApiServer()
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/{namespace}/configmaps", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
