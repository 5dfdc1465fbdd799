"""A simulated LocalAPI of tailscaled at a Unix socket, which knows the callers of the API server proxy."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Who = dict[str, Any]
CAPABILITY = "tailscale.com/cap/kubernetes"


def user(login: str, *groups: str) -> Who:
    """Return the answer to a WhoIs request about a device of the user *login*, whom a grant gives *groups*."""
    node = {"Name": "laptop.tail1234.ts.net.", "StableID": "n1", "User": 1}
    return {"Node": node, "UserProfile": {"ID": 1, "LoginName": login}, "CapMap": _granted(groups)}


def tagged(name: str, tags: list[str], *groups: str) -> Who:
    """Return the answer to a WhoIs request about a device with *tags*, to which a grant gives *groups*."""
    node = {"Name": f"{name}.", "StableID": "n2", "Tags": tags, "User": 2}
    profile = {"ID": 2, "LoginName": "tagged-devices"}
    return {"Node": node, "UserProfile": profile, "CapMap": _granted(groups)}


def _granted(groups: tuple[str, ...]) -> dict[str, Any]:
    return {CAPABILITY: [{"impersonate": {"groups": [*groups]}}]} if groups else {}


class LocalApiWithCallers:
    """A LocalAPI that answers requests for WhoIs about *callers*, a map from `ip:port` to the answer."""

    def __init__(self) -> None:
        self.callers: dict[str, Who] = {}
        self.asked: list[str] = []
        """The `ip:port` of each request for WhoIs."""
        self.pinged: list[str] = []
        """The addresses that were pinged, in order."""
        self.status: Who = {"BackendState": "Running"}
        self.statuses = 0
        """The number of requests for the status."""
        self._open: set[asyncio.StreamWriter] = set()
        self.hosts: set[str] = set()
        """The values of the header Host in the requests."""
        self.answers = asyncio.Event()
        """An event: while it is cleared, requests get no answer."""
        self.answers.set()
        self.devices: dict[str, int] = {}
        """The port on loopback that each `ip:port` of the tailnet leads to."""
        self.outside: set[str] = set()
        """The addresses, each an `ip:port`, that aren't in the tailnet."""
        self.dialled: list[str] = []
        self._far: set[asyncio.StreamWriter] = set()
        """The open connections to devices."""
        self.raw = b""
        """The bytes of every answer. If there are none, the LocalAPI gives its usual answers."""

    def cut(self) -> None:
        """Break all connections to devices."""
        for writer in self._far:
            writer.transport.abort()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Listen at *path* while the context lasts."""
        async with await asyncio.start_unix_server(self._serve, path):
            try:
                yield
            finally:
                os.unlink(path)  # noqa: PTH108 (no blocking pathlib in a coroutine)

    def end(self) -> None:
        """Close all connections, as happens if tailscaled ends."""
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            self.hosts |= {line.partition(": ")[2] for line in lines if line.lower().startswith("host: ")}
            target = urlsplit(request.split()[1])
            if target.path == "/localapi/v0/whois":
                self.asked += parse_qs(target.query)["addr"]
            if target.path == "/localapi/v0/ping" and request.startswith("POST "):
                self.pinged += parse_qs(target.query)["ip"]
            self.statuses += target.path == "/localapi/v0/status"
            await self.answers.wait()
            if target.path == "/localapi/v0/dial":
                await self._dial(_headers(lines), reader, writer)
                return
            writer.write(self.raw or self._answer(target.path, self.asked[-1] if self.asked else ""))
        except (asyncio.IncompleteReadError, OSError):
            return  # the proxy has given up
        finally:
            self._open.discard(writer)
            writer.close()

    async def _dial(self, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer as serveDial of tailscale.com/ipn/localapi does, and move bytes until one side ends."""
        assert ("upgrade" in headers["connection"], headers["upgrade"]) == (True, "ts-dial")
        host = headers["dial-host"]
        address = f"[{host}]:{headers['dial-port']}" if ":" in host else f"{host}:{headers['dial-port']}"
        self.dialled.append(address)
        if address in self.outside:
            writer.write(b"HTTP/1.1 200 OK\r\nDial-Self: true\r\nContent-Length: 0\r\n\r\n")
        elif address not in self.devices:
            body = b"dial failure: connection refused\n"
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        else:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.devices[address])
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ts-dial\r\nConnection: upgrade\r\n\r\n")
            self._far.add(far_writer)
            try:
                tasks = [asyncio.ensure_future(_move(*ways)) for ways in ((reader, far_writer), (far_reader, writer))]
                await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
                for task in tasks:
                    task.cancel()
            finally:
                self._far.discard(far_writer)
                far_writer.close()

    def _answer(self, path: str, address: str) -> bytes:
        if path == "/localapi/v0/status":
            status, body = "200 OK", json.dumps(self.status).encode()
        elif path == "/localapi/v0/ping":
            status, body = "200 OK", b"{}"
        elif path == "/localapi/v0/whois" and address in self.callers:
            status, body = "200 OK", json.dumps(self.callers[address]).encode()
        else:
            status, body = "404 Not Found", b"no match for IP:port\n"
        head = f"HTTP/1.1 {status}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _headers(lines: list[str]) -> dict[str, str]:
    """Return the headers by their names in lower case."""
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


async def _move(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
