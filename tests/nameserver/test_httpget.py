"""Tests of the HTTP client, against a server that says what it is told to."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from tsnameserver.errors import ApiError
from tsnameserver.httpget import HttpGet

from tests.nameserver.authority import certified

HEAD = b"HTTP/1.1 200 OK\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\nok"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class Scripted:
    """Answers each request with the next of *responses*, and closes the connection after an empty one."""

    def __init__(self, responses: Sequence[bytes]) -> None:
        self.responses = list(responses)
        self.requests: list[str] = []
        self.connections = 0
        self.port = 0

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has gone
            while self.responses:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
                response = self.responses.pop(0)
                is_last = self.responses[:1] == [b""]
                del self.responses[:is_last]
                for at in range(100):  # in parts
                    writer.write(response[at : at + 1] if at < 99 else response[at:])
                    await asyncio.sleep(0)
                if is_last:
                    return


@asynccontextmanager
async def scripted(*responses: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    script = Scripted(responses)
    server = await asyncio.start_server(script.converse, "127.0.0.1", 0, ssl=tls)
    script.port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(10):
        yield script


async def said(client: HttpGet) -> tuple[int, bytes]:
    async with client.get("/", {}, {}) as response:
        return response.status, await response.read()


def client_of(script: Scripted, tls: ssl.SSLContext | None = None) -> HttpGet:
    return HttpGet(f"http{'s' if tls else ''}://127.0.0.1:{script.port}", tls, connect_seconds=5)


class Case(NamedTuple):
    response: bytes
    status: int
    body: bytes


WELL_FORMED = {
    "a length": Case(WHOLE, 200, b"ok"),
    "no body": Case(b"HTTP/1.1 410 Gone\r\ncontent-length:0\r\n\r\n", 410, b""),
    "no reason": Case(b"HTTP/1.1 403\r\nContent-Length: 2\r\n\r\nno", 403, b"no"),
    "chunks": Case(CHUNKED + b"3\r\none\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, b"one0123456789"),
    "extensions": Case(CHUNKED + b"3;a=b\r\none\r\n0;c\r\nTrailer: x\r\n\r\n", 200, b"one"),
    "until the end": Case(HEAD + b"\r\nall of it", 200, b"all of it"),
}


@pytest.mark.parametrize("case", WELL_FORMED.values(), ids=WELL_FORMED)
async def test_a_body_is_read_in_whatever_form_and_parts_it_comes(case: Case) -> None:
    async with scripted(case.response, b"") as script:
        with closing(client_of(script)) as client:
            assert await said(client) == (case.status, case.body)


MALFORMED = {
    "nothing": b"",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 3\r\n\r\nok",
    "half a chunk": CHUNKED + b"3\r\non",
    "no last chunk": CHUNKED + b"3\r\none\r\n",
    "no size": CHUNKED + b"three\r\none\r\n",
    "more than the size": CHUNKED + b"2\r\none\r\n0\r\n\r\n",
    "an endless line": HEAD + b"X: " + bytes(200_000),
}


@pytest.mark.parametrize("response", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_response_is_an_error_that_a_follower_waits_out(response: bytes) -> None:
    async with scripted(response, b"") as script:
        with closing(client_of(script)) as client, pytest.raises((ApiError, ValueError, ConnectionError)):
            await said(client)


async def test_a_request_says_what_is_asked_of_whom() -> None:
    async with scripted(WHOLE) as script:
        with closing(HttpGet(f"http://127.0.0.1:{script.port}/proxy/", None, connect_seconds=5)) as client:
            async with client.get("/api", {"a": "b,c=d", "e": "1"}, {"Authorization": "Bearer x"}):
                pass
    assert script.requests == [
        f"GET /proxy/api?a=b%2Cc%3Dd&e=1 HTTP/1.1\r\nHost: 127.0.0.1:{script.port}\r\nAuthorization: Bearer x\r\n\r\n"
    ]


KEPT = {
    "a length": (WHOLE, 1),
    "chunks": (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", 1),
    "until the end": (HEAD + b"\r\nok", 2),
    "by wish": (HEAD + b"Connection: Close\r\nContent-Length: 2\r\n\r\nok", 2),
}


@pytest.mark.parametrize(("response", "connections"), KEPT.values(), ids=KEPT)
async def test_a_connection_is_kept_after_a_response_whose_end_is_known(response: bytes, connections: int) -> None:
    closes = [b""] * (connections - 1)
    async with scripted(response, *closes, WHOLE) as script:
        with closing(client_of(script)) as client:
            assert [await said(client), await said(client)] == [(200, b"ok")] * 2
    assert (script.connections, len(script.requests)) == (connections, 2)


async def test_a_connection_is_not_kept_after_a_response_that_was_not_read() -> None:
    async with scripted(CHUNKED + b"2\r\nok\r\n0\r\n\r\n", WHOLE) as script:
        with closing(client_of(script)) as client:
            async with client.get("/", {}, {}) as response:
                assert response.status == 200
            assert await said(client) == (200, b"ok")
    assert script.connections == 2


async def test_a_kept_connection_that_fails_is_not_used_again() -> None:
    cut = HEAD + b"Content-Length: 9\r\n\r\ncut"
    async with scripted(WHOLE, cut, b"", WHOLE) as script:
        with closing(client_of(script)) as client:
            assert await said(client) == (200, b"ok")
            with pytest.raises(ApiError):
                await said(client)
            assert await said(client) == (200, b"ok")
    assert script.connections == 2


async def test_a_server_that_does_not_take_connections_is_given_up_in_time() -> None:
    with pytest.raises(TimeoutError):
        await said(HttpGet("http://127.0.0.1:1", None, connect_seconds=0))


@pytest.mark.parametrize("known", [True, False])
async def test_only_a_server_that_the_authority_certifies_is_told_anything(tmp_path: Path, known: bool) -> None:
    serving = certified(tmp_path)
    asking = ssl.create_default_context(cafile=tmp_path / "ca.crt" if known else None)
    async with scripted(WHOLE, tls=serving) as script:
        with closing(client_of(script, asking)) as client:
            if known:
                assert await said(client) == (200, b"ok")
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await said(client)
        assert len(script.requests) == known
