"""The API server proxy in a test: between callers and an API server that answers with the head of each request."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import IO

from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.greeting import RecentCallers
from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.notes import Notes
from tsoperator.apiproxy.recording.dialling import RecorderLimits
from tsoperator.apiproxy.recording.recordings import Recordings
from tsoperator.apiproxy.server import ConnectionLimits, ProxyServer
from tsoperator.apiproxy.session import SessionLimits, Shared
from tsoperator.apiproxy.tls import ApiServer

from tests.support.echoserver import EchoingServer
from tests.support.localapi import LocalApiWithCallers, user

ALICE = "100.64.0.7:50001"
TOKEN = "token-of-the-proxy"
SMALL_BUFFER = 1 << 16
"""The size of the kernel's send buffer in bytes: so small that the program soon has to wait for a slow reader."""


def proxy_header(source: str, extra: bytes = b"") -> bytes:
    """Return a PROXY header of version 2 with the *source*, an `ip:port`, and with *extra* bytes at its end."""
    host, _, port = source.rpartition(":")
    ip = ip_address(host.strip("[]"))
    addresses = ip.packed * 2 + int(port).to_bytes(2) + (443).to_bytes(2) + extra
    family = b"\x11" if ip.version == 4 else b"\x21"
    return b"\r\n\r\n\0\r\nQUIT\n\x21" + family + len(addresses).to_bytes(2) + addresses


@dataclass(frozen=True)
class Answer:
    """An answer: its status, its headers by their names in lower case, and its body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Connection:
    """A caller's connection to the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes | str) -> None:
        """Give *data* to the transport, which sends it soon."""
        self.writer.write(data.encode() if isinstance(data, str) else data)

    async def ask(self, target: str = "/version", *headers: str, method: str = "GET", body: bytes = b"") -> Answer:
        """Send a request, and return the answer."""
        length = [f"Content-Length: {len(body)}"] if body else []
        lines = [f"{method} {target} HTTP/1.1", "Host: k8s.tail1234.ts.net", *headers, *length, "", ""]
        self.send("\r\n".join(lines).encode() + body)
        return await self.answer(method)

    async def answer(self, method: str = "GET") -> Answer:
        """Return the next answer."""
        async with asyncio.timeout(20):
            status, headers = await self.head()
            if method == "HEAD" or status < 200 or status == 204:
                return Answer(status, headers, b"")
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                body = b"".join([chunk async for chunk in self._chunks()])
            else:
                body = await self.reader.read()
            return Answer(status, headers, body)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return the status of the next answer, and its headers by their names in lower case."""
        async with asyncio.timeout(20):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines if line)
        return int(first.split()[1]), {name.lower(): value for name, value in pairs}

    async def rest(self) -> bytes:
        """Return all bytes until the connection ends, be it by a reset."""
        data = b""
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):
                while more := await self.reader.read(1 << 16):
                    data += more
        return data

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()


@dataclass
class Ground:
    """The proxy, the API server behind it, and tailscaled beside it."""

    api: EchoingServer
    tailscaled: LocalApiWithCallers
    folder: Path
    recorder_limits: RecorderLimits | None = None
    counts: ProxyCounts = field(default_factory=lambda: ProxyCounts("auth"))
    callers: RecentCallers = field(default_factory=RecentCallers)
    port: int = 0
    http_port: int = 0
    health_port: int = 0

    @property
    def socket(self) -> Path:
        """The path of the LocalAPI's socket."""
        return self.folder / "tailscaled.sock"

    @property
    def token(self) -> Path:
        """The file with the proxy's token."""
        return self.folder / "token"

    @asynccontextmanager
    async def connected(self, source: str = ALICE, local: str = "127.0.0.1") -> AsyncIterator[Connection]:
        """Connect to the proxy from *local*, and send a PROXY header with *source* as the caller's address.

        If *source* is empty, send no header.
        """
        reader, writer = await asyncio.open_connection("127.0.0.2", self.port, local_addr=(local, 0))
        try:
            connection = Connection(reader, writer)
            if source:
                connection.send(proxy_header(source))
            yield connection
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def serving(
        self,
        mode: AccessMode = AccessMode.AUTH,
        limits: SessionLimits | None = None,
        most: ConnectionLimits | None = None,
        patience: float = 5.0,
    ) -> AsyncIterator[None]:
        """Run the proxy in *mode* while the context lasts.

        *limits* are its time limits for a client, and *most* its limits on connections. The API server and tailscaled
        must answer within *patience* seconds.
        """
        token = self.token if mode is AccessMode.AUTH else None
        api_server = ApiServer("127.0.0.1", self.api.port, self.api.ca, token, patience)
        local_api = LocalApi(self.socket, patience)
        recordings = Recordings(local_api.dial, self.counts.recordings, self.recorder_limits)
        limits = limits or SessionLimits()
        shared = Shared(mode, local_api, api_server, self.counts, limits, Notes(), recordings, self.callers)
        with socket.create_server(("127.0.0.2", 0), backlog=512) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)  # inherited by its connections
            self.port = listener.getsockname()[1]
            serving = asyncio.create_task(ProxyServer(shared, most).serve(listener))
            try:
                yield
            finally:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving


@asynccontextmanager
async def grounded(folder: Path) -> AsyncIterator[Ground]:
    """Run an API server, and a LocalAPI that knows the caller Alice, while the context lasts."""
    ground = Ground(EchoingServer(folder), LocalApiWithCallers(), folder)
    ground.token.write_text(f"{TOKEN}\n")
    ground.tailscaled.callers[ALICE] = user("alice@example.org", "system:masters")
    with ground.api.listening():
        async with ground.tailscaled.listening(ground.socket):
            yield ground


_PROGRAM = """
import asyncio, ctypes, dataclasses, gc, os, pathlib, resource, signal, sys
from tsoperator.apiproxy.__main__ import serve
from tsoperator.apiproxy.settings import read_proxy_settings

class Allocations(ctypes.Structure):  # struct mallinfo2 of glibc
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Allocations

def say_size(*_):
    gc.collect()
    libc.malloc_trim(0)
    used = libc.mallinfo2()
    sizes = len(asyncio.all_tasks()), sys.getallocatedblocks(), used.uordblks + used.hblkhd
    print("size:", *sizes, file=sys.stderr, flush=True)

signal.signal(signal.SIGUSR1, say_size)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
raise SystemExit(serve(dataclasses.replace(read_proxy_settings(os.environ), **{places})))
"""
"""The source of a program that runs the proxy as in a Pod, but with files and ports of a test.

At SIGUSR1, the program gives unused memory back to the kernel. Then it prints three numbers: its tasks, its small
blocks of memory, and the bytes in larger blocks.
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.2", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def proxy_process(
    ground: Ground, log: IO[bytes] | int = subprocess.PIPE, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the proxy in a process that listens on free ports; kill it at the end if it still runs."""
    ground.port, ground.http_port, ground.health_port = _free_port(), _free_port(), _free_port()
    places = (
        f"dict(tls_port={ground.port}, http_port={ground.http_port}, health_port={ground.health_port}, "
        f"ca_file=pathlib.Path({str(ground.api.ca)!r}), token_file=pathlib.Path({str(ground.token)!r}))"
    )
    given = {
        "APISERVER_PROXY": "true",
        "POD_IP": "127.0.0.2",
        "TS_SOCKET": str(ground.socket),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(ground.api.port),
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM.format(places=places), env={**os.environ, **given, **environment}, stderr=log
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until *condition* is true. Raises TimeoutError after 20 seconds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (there is no event for what threads and sockets do)
            await asyncio.sleep(0.005)
