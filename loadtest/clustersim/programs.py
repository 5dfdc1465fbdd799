"""Programs outside the cluster that play Pods: the API server offers their logs and ports as those of the Pods.

Clients reach a port by the subresource ``proxy`` or ``portforward`` of a Pod. The program called NAME plays the Pods
with the label ``app: NAME``.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import WSMsgType, web

from clustersim.errors import ApiError, bad_request
from clustersim.objects import POD, Object, labels_of
from clustersim.reading import flag, number
from clustersim.store import Store

_PATH = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<pod>[^/:]+)(?::(?P<port>\d+))?"
    r"/(?P<what>log|portforward|proxy)(?P<rest>/.*)?"
)
_NO_LOG = "this Pod is simulated: no program runs in it, so it has no log\n"
_CHANNELS = ("v4.channel.k8s.io", "portforward.k8s.io")
_FOLLOW_SECONDS = 0.2
_CHUNK = 65_536
_ASK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Program:
    """A program that plays the Pods with the label ``app: name``. It has a log file, and ports on loopback."""

    name: str
    log: Path | None = None
    ports: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the program that a JSON object describes, such as ``{"name": "operator", "log": "/tmp/a.log"}``."""
        given = json.loads(text)
        ports = {int(inside): int(outside) for inside, outside in given.get("ports", {}).items()}
        return cls(given["name"], Path(given["log"]) if "log" in given else None, ports)

    def to_json(self) -> str:
        """Return the JSON that `parse` reads."""
        log = {} if self.log is None else {"log": str(self.log)}
        return json.dumps({"name": self.name, **log, "ports": self.ports})


class Programs:
    """Answers the requests for the logs and ports of Pods."""

    def __init__(self, store: Store, programs: Iterable[Program] = ()) -> None:
        self._store = store
        self._programs = {each.name: each for each in programs}

    async def answer(self, request: web.Request) -> web.StreamResponse | None:
        """Return the answer to a request for a Pod's log or port, or None for other requests. Raises ApiError."""
        match = _PATH.fullmatch(request.path)
        if match is None:
            return None
        pod = self._store.get(POD, match["namespace"], match["pod"])
        program = self._programs.get(labels_of(pod).get("app", ""))
        if match["what"] == "log":
            return await _log(request, program)
        if match["what"] == "proxy":
            return await _ask(request, pod, _port(program, int(match["port"] or 80)), match["rest"] or "/")
        return await _forward(request, program)


def _port(program: Program | None, inside: int) -> int:
    if program is None or inside not in program.ports:
        raise ApiError(503, "ServiceUnavailable", f"nothing listens at port {inside} of this simulated Pod")
    return program.ports[inside]


async def _log(request: web.Request, program: Program | None) -> web.StreamResponse:
    """Send the end of the log. If the client asked to follow the log, also send each later line."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    if program is None or program.log is None:
        await response.write(_NO_LOG.encode())
        return response
    lines = request.query.get("tailLines")
    with program.log.open("rb") as log:
        text = log.read()
        if lines is not None:
            kept = number(request, "tailLines")
            text = b"".join(text.splitlines(keepends=True)[-kept:]) if kept else b""
        await response.write(text)
        while flag(request, "follow"):
            await asyncio.sleep(_FOLLOW_SECONDS)
            await response.write(log.read())
    return response


async def _ask(request: web.Request, pod: Object, port: int, path: str) -> web.Response:
    """Pass a GET on to the program, as a real API server does for the subresource ``proxy`` of a Pod."""
    timeout = aiohttp.ClientTimeout(_ASK_SECONDS)
    url = f"http://127.0.0.1:{port}{path}"
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, params=request.query) as answer:
            body = await answer.read()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)
    except (aiohttp.ClientError, TimeoutError) as error:
        name = pod["metadata"]["name"]
        raise ApiError(503, "ServiceUnavailable", f"error trying to reach the Pod {name}: {error}") from error


async def _forward(request: web.Request, program: Program | None) -> web.StreamResponse:
    """Forward ports by WebSocket. Each port has two channels: one for the data, and the next one for errors."""
    asked = [int(each) for text in request.query.getall("ports", []) for each in text.split(",") if each.isdecimal()]
    if request.headers.get("Upgrade", "").lower() != "websocket" or not asked:
        raise bad_request("the simulated cluster forwards ports by WebSocket alone, with the ports in the query")
    ports = [_port(program, each) for each in asked]
    socket = web.WebSocketResponse(protocols=_CHANNELS)
    await socket.prepare(request)
    connections = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
    try:
        async with asyncio.TaskGroup() as tasks:
            for number_of_port, (reader, _) in enumerate(connections):
                for channel in (2 * number_of_port, 2 * number_of_port + 1):
                    await socket.send_bytes(bytes([channel]) + asked[number_of_port].to_bytes(2, "little"))
                tasks.create_task(_send(socket, 2 * number_of_port, reader))
            await _receive(socket, [writer for _, writer in connections])
            await socket.close()
    finally:
        for _, writer in connections:
            writer.close()
    return socket


async def _send(socket: web.WebSocketResponse, channel: int, reader: asyncio.StreamReader) -> None:
    """Send the bytes of the program on *channel*, and close the WebSocket when the program closes the connection."""
    with suppress(ConnectionError):  # the client has gone
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(bytes([channel]) + data)
    await socket.close()


async def _receive(socket: web.WebSocketResponse, writers: list[asyncio.StreamWriter]) -> None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel % 2 == 0 and channel // 2 < len(writers):
            writers[channel // 2].write(data)
            with suppress(ConnectionError):  # the program has closed the connection, and `_send` closes the WebSocket
                await writers[channel // 2].drain()
