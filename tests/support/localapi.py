"""A LocalAPI of tailscaled with callers, at a Unix socket."""

import asyncio
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
    """Return the answer of a WhoIs about a device of a user whom a grant gives *groups*."""
    node = {"Name": "laptop.tail1234.ts.net.", "StableID": "n1", "User": 1}
    return {"Node": node, "UserProfile": {"ID": 1, "LoginName": login}, "CapMap": _granted(groups)}


def tagged(name: str, tags: list[str], *groups: str) -> Who:
    """Return the answer of a WhoIs about a device with *tags* to which a grant gives *groups*."""
    node = {"Name": f"{name}.", "StableID": "n2", "Tags": tags, "User": 2}
    profile = {"ID": 2, "LoginName": "tagged-devices"}
    return {"Node": node, "UserProfile": profile, "CapMap": _granted(groups)}


def _granted(groups: tuple[str, ...]) -> dict[str, Any]:
    return {CAPABILITY: [{"impersonate": {"groups": [*groups]}}]} if groups else {}


class LocalApiWithCallers:
    """Answers WhoIs for the callers in *callers*, by `ip:port`."""

    def __init__(self) -> None:
        self.callers: dict[str, Who] = {}
        self.asked: list[str] = []
        """The `ip:port` of each WhoIs."""
        self.hosts: set[str] = set()
        """The values of the header Host."""
        self.answers = asyncio.Event()
        """Clear it, and requests hang."""
        self.answers.set()
        self.raw = b""
        """Bytes that take the place of each answer, if there are any."""

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Listen at *path* while the context lasts."""
        async with await asyncio.start_unix_server(self._serve, path):
            try:
                yield
            finally:
                os.unlink(path)  # noqa: PTH108 (no blocking pathlib in a coroutine)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            self.hosts |= {line.partition(": ")[2] for line in lines if line.lower().startswith("host: ")}
            target = urlsplit(request.split()[1])
            if target.path == "/localapi/v0/whois":
                self.asked += parse_qs(target.query)["addr"]
            await self.answers.wait()
            writer.write(self.raw or self._answer(target.path, self.asked[-1] if self.asked else ""))
        except (asyncio.IncompleteReadError, OSError):
            return  # the proxy has given up
        finally:
            writer.close()

    def _answer(self, path: str, address: str) -> bytes:
        if path == "/localapi/v0/status":
            status, body = "200 OK", b'{"BackendState":"Running"}'
        elif path == "/localapi/v0/whois" and address in self.callers:
            status, body = "200 OK", json.dumps(self.callers[address]).encode()
        else:
            status, body = "404 Not Found", b"no match for IP:port\n"
        head = f"HTTP/1.1 {status}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
