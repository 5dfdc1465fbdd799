"""Tests of the HTTP client, against a server that sends exactly the bytes that a test chooses."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tsnameserver.errors import ApiError
from tsnameserver.httpget import HttpGet

from tests.support.tls import certified

HEAD = b"HTTP/1.1 200 OK\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\nok"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
OK = (200, b"ok")


class Scripted:
    """A server that answers each request with the next of *responses*. An empty response closes the connection."""

    def __init__(self, responses: Sequence[bytes]) -> None:
        self.responses = list(responses)
        self.requests: list[str] = []
        self.connections = 0
        self.url = ""

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
async def scripted(
    *responses: bytes, path: str = "", serving: ssl.SSLContext | None = None, asking: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Scripted, HttpGet]]:
    """Run a server that sends *responses*. Yield the server, and a client that requests *path* from it.

    *serving* is the TLS context of the server, and *asking* is that of the client. Without *serving*, the server speaks
    plain HTTP.
    """
    script = Scripted(responses)
    server = await asyncio.start_server(script.converse, "127.0.0.1", 0, ssl=serving)
    script.url = f"http{'s' if serving else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, asyncio.timeout(10):
        with closing(HttpGet(script.url + path, asking, connect_seconds=5)) as client:
            yield script, client


async def said(client: HttpGet) -> tuple[int, bytes]:
    async with client.get("/", {}, {}) as response:
        return response.status, await response.read()


WELL_FORMED = {
    "a length": (WHOLE, 200, b"ok"),
    "no body": (b"HTTP/1.1 410 Gone\r\ncontent-length:0\r\n\r\n", 410, b""),
    "no reason": (b"HTTP/1.1 403\r\nContent-Length: 2\r\n\r\nno", 403, b"no"),
    "chunks": (CHUNKED + b"3\r\none\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, b"one0123456789"),
    "extensions": (CHUNKED + b"3;a=b\r\none\r\n0;c\r\nTrailer: x\r\n\r\n", 200, b"one"),
    "until the end": (HEAD + b"\r\nall of it", 200, b"all of it"),
}


@pytest.mark.parametrize(("response", "status", "body"), WELL_FORMED.values(), ids=WELL_FORMED)
async def test_the_http_client_reads_a_body_in_each_transfer_encoding_however_the_bytes_are_split(
    response: bytes, status: int, body: bytes
) -> None:
    async with scripted(response, b"") as (_, client):
        assert await said(client) == (status, body)


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
async def test_a_malformed_response_raises_an_error_after_which_the_follower_tries_again(response: bytes) -> None:
    async with scripted(response, b"") as (_, client):
        with pytest.raises((ApiError, ValueError, ConnectionError)):
            await said(client)


async def test_a_request_of_the_http_client_has_its_target_its_host_header_and_the_given_headers() -> None:
    parameters, headers = {"a": "b,c=d", "e": "1"}, {"Authorization": "Bearer x"}
    async with scripted(WHOLE, path="/proxy/") as (script, client), client.get("/api", parameters, headers):
        pass
    host = script.url.removeprefix("http://")
    wanted = ["GET /proxy/api?a=b%2Cc%3Dd&e=1 HTTP/1.1", f"Host: {host}", "Authorization: Bearer x", "", ""]
    assert script.requests == ["\r\n".join(wanted)]


KEPT = {
    "a length": (WHOLE, 1),
    "chunks": (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", 1),
    "until the end": (HEAD + b"\r\nok", 2),
    "by wish": (HEAD + b"Connection: Close\r\nContent-Length: 2\r\n\r\nok", 2),
}


@pytest.mark.parametrize(("response", "connections"), KEPT.values(), ids=KEPT)
async def test_the_http_client_reuses_a_connection_after_a_response_whose_end_is_known(
    response: bytes, connections: int
) -> None:
    closes = [b""] * (connections - 1)
    async with scripted(response, *closes, WHOLE) as (script, client):
        assert [await said(client), await said(client)] == [OK] * 2
    assert (script.connections, len(script.requests)) == (connections, 2)


async def test_the_http_client_closes_a_connection_after_a_response_that_was_not_read() -> None:
    async with scripted(CHUNKED + b"2\r\nok\r\n0\r\n\r\n", WHOLE) as (script, client):
        async with client.get("/", {}, {}) as response:
            assert response.status == 200
        assert await said(client) == OK
    assert script.connections == 2


async def test_the_http_client_does_not_reuse_a_connection_after_an_error() -> None:
    cut = HEAD + b"Content-Length: 9\r\n\r\ncut"
    async with scripted(WHOLE, cut, b"", WHOLE) as (script, client):
        assert await said(client) == OK
        with pytest.raises(ApiError):
            await said(client)
        assert await said(client) == OK
    assert script.connections == 2


async def test_the_http_client_stops_waiting_for_a_server_that_accepts_no_connections() -> None:
    with pytest.raises(TimeoutError):
        await said(HttpGet("http://127.0.0.1:1", None, connect_seconds=0))


@pytest.mark.parametrize("known", [True, False])
async def test_the_http_client_sends_requests_only_to_a_server_with_a_certificate_of_the_authority(
    tmp_path: Path, known: bool
) -> None:
    serving = certified(tmp_path)
    asking = ssl.create_default_context(cafile=tmp_path / "ca.crt" if known else None)
    refused = contextlib.nullcontext() if known else pytest.raises(ssl.SSLCertVerificationError)
    async with scripted(WHOLE, serving=serving, asking=asking) as (script, client):
        with refused:
            assert await said(client) == OK
        assert len(script.requests) == known
