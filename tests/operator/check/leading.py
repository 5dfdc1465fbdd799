"""Serves a test's cluster with a leading operator: Leases, port-forwards to Pods, and the report in these Pods."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.support.cluster import serving

PORT = 9003
LEADER = "operator-0"
LEASES = "/apis/coordination.k8s.io/v1/leases"
RESET = struct.pack("ii", 1, 0)
REFUSED = "error forwarding port 9003 to pod: connect: connection refused"


def row(kind: str = "Service", namespace: str = "shop", name: str = "db", **fields: Any) -> dict[str, Any]:
    """Return the row of an object in the leader's report."""
    return {"kind": kind, "namespace": namespace, "name": name, "verdict": "ok", **fields}


@dataclass
class Leading:
    """The cluster of a test, which the test can change. No Deployment runs the operator.

    *leases* has the holders of the operators' Leases by namespace, and *pods* the Pods that run. The Pod *leader*
    leads. Its report has the rows *objects* and the fields *report*, and its answer has the HTTP headers *headers*.
    A Pod in *deaf* listens on no port. The API server opens no port-forward to a Pod in *mute*. The user isn't allowed
    to request a path that contains one of *denied*.
    """

    kubeconfig: Path
    leases: dict[str, str] = field(default_factory=lambda: {"tailscale": f"{LEADER}_1a2b"})
    pods: list[str] = field(default_factory=lambda: [LEADER])
    leader: str = LEADER
    deaf: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    headers: dict[str, str] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    answer: Callable[[], web.Response] | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    reports: int = 0
    unchanged: int = 0
    transports: list[asyncio.Transport] = field(default_factory=list)
    forwards: int = 0

    def cut(self) -> None:
        """Reset the connections of all port-forwards."""
        for transport in self.transports:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.loop.call_soon_threadsafe(transport.abort)

    async def status(self, pod: str, request: web.Request) -> web.Response:
        """Answer as the server of the report in *pod*."""
        assert (request.path, request.headers["Host"]) == ("/status", "localhost")
        self.reports += 1
        if self.answer is not None:
            return self.answer()
        if pod != self.leader:
            return web.json_response({"error": "this Pod does not lead", "leader": self.leader}, status=503)
        tag = f'"{hash(json.dumps([self.objects, self.report]))}"'
        if request.headers.get("If-None-Match") == tag:
            self.unchanged += 1
            return web.Response(status=304)
        about = {"version": "0.1.0", "namespace": "tailscale", "pod": pod, "leadingSince": "2026-01-01T00:00:00Z"}
        return web.json_response(
            {**about, "objects": self.objects, **self.report}, headers={"ETag": tag, **self.headers}
        )

    async def api(self, request: web.Request) -> web.StreamResponse:
        """Answer as the API server."""
        path, parts = request.path, request.path.strip("/").split("/")
        if any(each in path for each in self.denied):
            return _refusal(403, "Forbidden", "may not")
        if path == LEASES:
            assert request.query["fieldSelector"] == "metadata.name=tailscale-operator"
            return _listed([_lease(*each) for each in self.leases.items()])
        match parts:
            case ["apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases", "tailscale-operator"]:
                if namespace in self.leases:
                    return web.json_response(_lease(namespace, self.leases[namespace]))
            case ["apis", "apps", "v1", "namespaces", _, "deployments"]:
                return _listed([])
            case ["api", "v1", "namespaces", namespace, "pods"]:
                assert request.query["labelSelector"] == "tailscale.com/operator=tsoperator"
                return _listed([_pod(each) for each in self.pods if namespace == "tailscale"])
            case ["api", "v1", "namespaces", _, "pods", pod, "portforward"] if pod in self.pods:
                return await self._forward(request, pod)
        return _refusal(404, "NotFound", f"{path} not found")

    async def _forward(self, request: web.Request, pod: str) -> web.StreamResponse:
        """Move bytes between the channels of a WebSocket and the server of the report in *pod*."""
        self.forwards += 1
        if pod in self.mute:
            await asyncio.Event().wait()
        assert isinstance(request.transport, asyncio.Transport)
        self.transports.append(request.transport)
        opened = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await opened.prepare(request)
        opening = PORT.to_bytes(2, "little")
        for channel in (b"\0", b"\1"):
            await opened.send_bytes(channel + opening)
        if pod in self.deaf:
            await opened.send_bytes(b"\1" + REFUSED.encode())
            return opened

        async def handler(asked: web.Request) -> web.StreamResponse:
            return await self.status(pod, asked)

        async with serving(handler) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            answering = asyncio.create_task(_answer(reader, opened))
            try:
                async for message in opened:
                    assert message.data[:1] == b"\0"
                    writer.write(message.data[1:])
            finally:
                answering.cancel()
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()
        return opened


async def _answer(reader: asyncio.StreamReader, opened: web.WebSocketResponse) -> None:
    while chunk := await reader.read(32 << 10):
        await opened.send_bytes(b"\0" + chunk)


def _lease(namespace: str, holder: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "tailscale-operator"}, "spec": {"holderIdentity": holder}}


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "tailscale", "name": name}, "status": {"phase": "Running"}}


def _listed(items: list[dict[str, Any]]) -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


def _refusal(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message}, status=code)


@asynccontextmanager
async def leading_cluster(folder: Path) -> AsyncIterator[Leading]:
    """Serve a cluster whose operator leads; its kubeconfig is in *folder*, and has the current namespace ``shop``."""
    cluster = Leading(folder / "leading")
    async with serving(cluster.api) as url:
        context = {"cluster": "c", "user": "u", "namespace": "shop"}
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [
                {"name": "c", "context": context},
                {"name": "void", "context": {**context, "cluster": "none"}},
            ],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "current-context": "c",
        }
        cluster.kubeconfig.write_text(yaml.safe_dump(config))
        yield cluster
