"""Peers that close a TLS connection before the client has read everything, so that uvloop loses the rest."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import uvloop
from pydantic import SecretStr
from tsoperator.api.objects import CONFIGMAP, Object
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Unreachable
from tsoperator.kube.watch import Changed, Selection, WatchPace, updates
from tsoperator.tsclient.errors import Unavailable
from tsoperator.tsclient.transport import Request, Retry, Transport

from tests.support.cluster import configuration, running, until
from tests.support.tls import Send, closing_server

COUNT = 100
CUTS = pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])


def configmap(version: int) -> Object:
    metadata = {"name": f"c{version}", "namespace": "default", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v" * 1000}}


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = [chunk(json.dumps({"type": "ADDED", "object": configmap(n)}).encode() + b"\n") for n in range(1, COUNT + 1)]
END = chunk(b"")
LIST = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [configmap(n) for n in range(1, 3001)]}).encode()


class Api:
    """An API server that sends events while the client pauses, and closes the watch before the pause ends."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.watched_from: list[int] = []
        self._rests = Event()
        self._closed: list[str] = []

    def answer(self, target: str, send: Send) -> None:
        self.asked.append(target)
        query = parse_qs(urlsplit(target).query)
        if "watch" not in query:
            send(HEAD + chunk(b'{"metadata": {"resourceVersion": "0"}, "items": []}') + END)
            return
        version = int(query["resourceVersion"][0])
        self.watched_from.append(version)
        self._rests.clear()
        send(HEAD + EVENTS[version])
        self._rests.wait(30)
        send(b"".join(EVENTS[version + 1 :]) + END)

    def closed(self) -> None:
        self._closed.append("")

    async def rest(self) -> None:
        self._rests.set()
        await until(lambda: len(self._closed) == len(self.asked))
        for _ in range(20):  # turns of the loop, in which it sees the end of the connection
            await asyncio.sleep(0)


def operators_loop() -> asyncio.Runner:
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


@asynccontextmanager
async def kube_client(folder: Path, url: str) -> AsyncIterator[KubeClient]:
    chosen = configuration(url)
    chosen.ssl_ca_cert = str(folder / "ca.crt")
    async with KubeClient(chosen) as client:
        yield client


def test_a_watch_that_was_cut_resumes_after_the_most_recent_event(tmp_path: Path) -> None:
    api, seen = Api(), list[int]()

    async def follow(url: str) -> None:
        pace = WatchPace(first_retry=0.01, last_retry=0.01, rest=api.rest)
        async with kube_client(tmp_path, url) as client:
            async for update in updates(client, Selection(CONFIGMAP), pace):
                if isinstance(update, Changed):
                    seen.append(int(update.obj["metadata"]["resourceVersion"]))

    async def follow_some(url: str) -> None:
        async with running(follow(url)):
            await until(lambda: len(seen) >= 5)

    with closing_server(tmp_path, api.answer, api.closed) as url, operators_loop() as runner:
        runner.run(follow_some(url))
    assert seen[:5] == [1, 2, 3, 4, 5]
    assert api.watched_from[:5] == [0, 1, 2, 3, 4]  # each watch was cut after its first event


def large(cut: bool) -> Callable[[str, Send], None]:
    """Return a function that sends `LIST` at once, and closes the connection before the end if *cut* is true."""
    return lambda _, send: send(HEAD + (chunk(LIST)[:-9000] if cut else chunk(LIST) + END))


@CUTS
def test_a_list_over_tls_is_either_complete_or_an_error(tmp_path: Path, cut: bool) -> None:
    async def read(url: str) -> int:
        async with kube_client(tmp_path, url) as client:
            return len((await client.list(CONFIGMAP)).items)

    with closing_server(tmp_path, large(cut)) as url, operators_loop() as runner:
        if cut:
            with pytest.raises(Unreachable, match="not completed"):
                runner.run(read(url))
        else:
            assert [runner.run(read(url)) for _ in range(5)] == [3000] * 5


@CUTS
def test_an_answer_of_the_control_server_is_complete_or_requested_again(tmp_path: Path, cut: bool) -> None:
    asked: list[str] = []

    async def read(url: str) -> bytes:
        tls = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(tmp_path / "ca.crt")))
        async with aiohttp.ClientSession(connector=tls) as session:
            retry = Retry(tries=2, first_pause=0)
            transport = Transport(session, url, retry, lambda method, _: asked.append(method))
            return (await transport.send(Request("GET", "/devices", SecretStr("x")))).body

    with closing_server(tmp_path, large(cut)) as url, operators_loop() as runner:
        if cut:
            with pytest.raises(Unavailable, match="not completed"):
                runner.run(read(url))
            assert asked == ["GET"] * 2
        else:
            assert [runner.run(read(url)) == LIST for _ in range(5)] == [True] * 5
