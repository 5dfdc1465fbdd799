"""Sends requests to API servers for the benchmark of the API server proxy.

The benchmark runs this program on a device of the tailnet. So it needs only Python. Its argument is the JSON of a
`Plan`. It prints JSON objects, one on each line.
"""

import asyncio
import http.client
import json
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

CHUNK = 1 << 20
PATIENCE = 60.0  # seconds for one request
SLOW = ("handshake", "head", "body", "reading")
"""The sorts of slow connections, each named after the step at which the client stops to send or to read."""
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
)
KEY = b"k"
BETWEEN_KEYS = 0.03  # seconds


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Target(NamedTuple):
    """A server that gets requests: an API server, or an API server proxy.

    *ca* is the file with the certificate of its CA. Each request has these *headers*.
    """

    name: str
    host: str
    port: int
    ca: str
    headers: Mapping[str, str]

    def connect(self) -> http.client.HTTPSConnection:
        """Return a new HTTP connection to the target."""
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE, context=context)
        connection.connect()
        return connection

    async def open(self) -> Connection:
        """Return a new TLS connection to the target, as streams of bytes."""
        context = ssl.create_default_context(cafile=self.ca)
        return await asyncio.open_connection(self.host, self.port, ssl=context)

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """Return the request line and the headers of a request."""
        headers = [f"{name}: {value}" for name, value in {"Host": self.host, **self.headers}.items()]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *headers, *lines, "\r\n"]).encode()


class Plan(NamedTuple):
    """The input of this program: the sort of *work*, its *targets*, and the *path* of the requests.

    *times* is the number of fetches, watches, sessions, keystrokes or slow connections.
    """

    work: str
    targets: Sequence[Target]
    path: str
    times: int


def fetch(connection: http.client.HTTPSConnection, path: str, headers: Mapping[str, str]) -> tuple[float, int]:
    """Fetch *path*. Return the seconds that it took, and the length of the body."""
    began, length = time.monotonic(), 0
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    while part := answer.read(CHUNK):
        length += len(part)
    if answer.status != http.client.OK:
        raise SystemExit(f"{path}: status {answer.status}")
    return time.monotonic() - began, length


def fetches(plan: Plan) -> Iterator[dict[str, Any]]:
    """Fetch the path of *plan* from all its targets in turn, and yield the seconds and the lengths of the bodies.

    Each target has one persistent connection. The first fetch from each target isn't measured. It is made in addition
    to the number of fetches that *plan* asks for.
    """
    taken: dict[str, list[float]] = {target.name: [] for target in plan.targets}
    lengths: dict[str, int] = {}
    with ExitStack() as stack:
        open_ = [(target, target.connect()) for target in plan.targets]
        for _, connection in open_:
            stack.callback(connection.close)
        for _ in range(1 + plan.times):
            for target, connection in open_:
                seconds, lengths[target.name] = fetch(connection, plan.path, target.headers)
                taken[target.name].append(seconds)
    yield {"seconds": {name: seconds[1:] for name, seconds in taken.items()}, "bytes": lengths}


async def watch(plan: Plan) -> None:
    """Open as many watches of the path at the first target as *plan* says.

    Then print a line, and read the events until the program is stopped.
    """
    (target, *_) = plan.targets
    readers = []
    for _ in range(plan.times):
        reader, writer = await target.open()
        writer.write(target.head("GET", plan.path))
        first = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in first:
            raise SystemExit(f"{plan.path}: {first!r}")
        readers.append((reader, writer))
    say({"open": len(readers)})
    await asyncio.gather(*(_drain(reader) for reader, _ in readers))
    raise SystemExit("the watches ended")


async def hold(plan: Plan) -> None:
    """Open as many sessions with a terminal at the first target as the plan says.

    Then print a line, and keep the sessions open until the program is stopped.
    """
    (target, *_) = plan.targets
    sessions = [await _session(target, plan.path) for _ in range(plan.times)]
    say({"open": len(sessions)})
    await asyncio.gather(*(_drain(reader) for reader, _ in sessions))
    raise SystemExit("the sessions ended")


async def keys(plan: Plan) -> None:
    """Type as many keys in a session at each target as *plan* says, and print the seconds until the echo of each."""
    taken = {}
    for target in plan.targets:
        reader, writer = await _session(target, plan.path)
        taken[target.name] = [await _echoed(reader, writer) for _ in range(plan.times)]
        writer.close()
    say({"seconds": taken})


async def _echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    await asyncio.sleep(BETWEEN_KEYS)
    began = time.monotonic()
    writer.write(_message(0, KEY))
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(KEY)
    return time.monotonic() - began


async def _session(target: Target, path: str) -> Connection:
    """Open a session that runs `cat` on a terminal, at *path* of *target*. The terminal echoes each key."""
    reader, writer = await target.open()
    writer.write(target.head("GET", f"{path}?command=cat&stdin=true&stdout=true&tty=true", *UPGRADE))
    if b" 101 " not in (first := await reader.readuntil(b"\r\n\r\n")):
        raise SystemExit(f"{path}: {first!r}")
    writer.write(_message(4, b'{"Width":80,"Height":24}'))
    await _echoed(reader, writer)
    return reader, writer


def _message(channel: int, data: bytes) -> bytes:
    """Return a short WebSocket message as a client sends it, masked with zeros."""
    return bytes([0x82, 0x80 | (len(data) + 1), 0, 0, 0, 0, channel]) + data


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(CHUNK):
        pass


async def slow(plan: Plan) -> None:
    """Open slow connections to the first target, and print how long requests on other connections take meanwhile."""
    (target, *_) = plan.targets
    hanging = [await _slow(target, plan.path, SLOW[number % len(SLOW)]) for number in range(plan.times)]
    loop = asyncio.get_running_loop()
    seconds = [await loop.run_in_executor(None, _once, target) for _ in range(20)]
    say({"seconds": seconds, "hanging": sum(not reader.at_eof() for reader, _ in hanging)})


def _once(target: Target) -> float:
    began = time.monotonic()
    connection = target.connect()
    fetch(connection, "/version", target.headers)
    connection.close()
    return time.monotonic() - began


async def _slow(target: Target, path: str, where: str) -> Connection:
    if where == "handshake":
        return await asyncio.open_connection(target.host, target.port)
    reader, writer = await target.open()
    begun = {
        "head": target.head("GET", "/version")[:-2],
        "body": target.head("POST", "/api/v1/namespaces", "Content-Length: 1000") + b"{",
        "reading": target.head("GET", path),
    }
    writer.write(begun[where])
    return reader, writer


def say(figures: Mapping[str, Any]) -> None:
    """Print *figures* as a line of JSON."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read a `Plan` from the command line, and carry it out."""
    read = json.loads(sys.argv[1])
    plan = Plan(**{**read, "targets": [Target(**each) for each in read["targets"]]})
    match plan.work:
        case "fetch":
            for figures in fetches(plan):
                say(figures)
        case "watch":
            asyncio.run(watch(plan))
        case "slow":
            asyncio.run(slow(plan))
        case "hold":
            asyncio.run(hold(plan))
        case "keys":
            asyncio.run(keys(plan))


if __name__ == "__main__":
    main()
