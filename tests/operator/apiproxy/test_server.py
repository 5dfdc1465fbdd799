"""The limits on connections, and the protection of each connection from the others."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tsoperator.apiproxy.server import ConnectionLimits
from tsoperator.apiproxy.session import Session, SessionLimits

from tests.support.apiproxy import ALICE, SMALL_BUFFER, Connection, Ground, proxy_header, until
from tests.support.echoserver import Peer, silent
from tests.support.localapi import user

SHORT = SessionLimits(header=0.3, head=0.3, idle=0.3)
REQUEST = "GET /version HTTP/1.1\r\nHost: k8s\r\n\r\n"


async def test_only_tailscaled_can_connect_to_the_api_server_proxy(ground: Ground) -> None:
    async with ground.serving(), ground.connected(local="127.0.0.3") as caller:
        caller.send(REQUEST)
        assert await caller.rest() == b""
    assert (ground.counts.refusals, ground.counts.connections, ground.tailscaled.asked) == ({"peer": 1}, 0, [])


BAD_HEADERS = {
    "none": (b"GET / HTTP/1.1\r\n\r\n", "proxy-signature"),
    "another version": (b"\r\n\r\n\0\r\nQUIT\n\x11", "proxy-command"),
    "the health check of a load balancer": (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "proxy-command"),
    "a Unix socket": (b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\0", "proxy-family"),
    "too long": (proxy_header(ALICE, b"x" * 600), "proxy-length"),
}


@pytest.mark.parametrize(("raw", "reason"), BAD_HEADERS.values(), ids=BAD_HEADERS)
async def test_a_connection_without_a_good_proxy_header_gets_no_answer(ground: Ground, raw: bytes, reason: str) -> None:
    async with ground.serving(), ground.connected("") as caller:
        caller.send(raw)
        assert await caller.rest() == b""
    assert (ground.counts.refusals, ground.tailscaled.asked) == ({reason: 1}, [])


SLOW = {
    "with the PROXY header": ("", proxy_header(ALICE)[:-1]),
    "with the first head": (ALICE, b"GET / HTTP/1.1\r\n"),
    "with the next request": (ALICE, REQUEST.encode()),
    "with a later head": (ALICE, (REQUEST + "GET /").encode()),
}


@pytest.mark.parametrize(("source", "sent"), SLOW.values(), ids=SLOW)
async def test_a_caller_that_is_too_slow_loses_its_connection(ground: Ground, source: str, sent: bytes) -> None:
    async with ground.serving(limits=SHORT), ground.connected(source) as caller:
        caller.send(sent)
        assert (await caller.rest()).count(b"HTTP/1.1 200 OK") == (len(sent) >= len(REQUEST) and source != "")
        await until(lambda: ground.counts.open_connections == 0)


@pytest.mark.parametrize("pieces", [(REQUEST, "GET /"), (REQUEST + "GET /", "")], ids=["late", "early"])
async def test_the_time_limit_for_the_head_of_a_request_is_the_same_for_later_requests_of_the_connection(
    ground: Ground, pieces: tuple[str, str]
) -> None:
    async with ground.serving(limits=SessionLimits(head=0.3)), ground.connected() as caller:
        for piece in pieces:
            caller.send(piece)
            if piece.startswith(REQUEST):
                assert (await caller.answer()).status == 200
        assert await caller.rest() == b""


def endless(peer: Peer, _: bytes) -> None:
    """Send *peer* an answer that doesn't end. The kernel's buffer for it is small."""
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        peer.send(b"x" * 10_000)


@asynccontextmanager
async def hanging(ground: Ground, number: int) -> AsyncIterator[None]:
    """Open *number* connections of each kind that hangs: in the PROXY header, head, body, or in reading an answer."""
    ground.api.scripts |= {"/endless": endless, "/body": silent}
    post = b"POST /body HTTP/1.1\r\nHost: k8s\r\nContent-Length: 9\r\n\r\n"
    header = proxy_header("100.64.0.66:1")
    beginnings = [
        header[:20],
        header + b"GET / HTT",
        header + post,
        header + b"GET /endless HTTP/1.1\r\nHost: k8s\r\n\r\n",
    ]
    ground.tailscaled.callers["100.64.0.66:1"] = user("mallory@example.org")
    async with AsyncExitStack() as stack:
        for beginning in beginnings * number:
            (await stack.enter_async_context(ground.connected(""))).send(beginning)
        await until(lambda: ground.counts.open_connections == number * len(beginnings))
        await until(lambda: len(ground.api.heads) == number * 2)
        yield


async def test_other_callers_get_answers_while_200_connections_hang(ground: Ground) -> None:
    async with ground.serving(), hanging(ground, 50):
        async with ground.connected() as caller:
            assert (await caller.ask()).status == 200
        assert ground.counts.open_connections >= 200


async def test_the_number_of_connections_of_one_caller_is_limited(ground: Ground) -> None:
    async with ground.serving(most=ConnectionLimits(caller=1)), ground.connected() as first:
        assert (await first.ask()).status == 200
        async with ground.connected("100.64.0.7:50002") as second:
            answer = await second.ask()
        assert (answer.status, answer.body) == (503, b"you have too many open connections\n")
        ground.tailscaled.callers["100.64.0.8:1"] = user("bob@example.org")
        async with ground.connected("100.64.0.8:1") as other:
            assert (await other.ask()).status == 200
        first.writer.transport.abort()
        await until(lambda: ground.counts.open_connections == 0)
        async with ground.connected() as again:
            assert (await again.ask()).status == 200
    assert ground.counts.refused_connections == {"all": 0, "caller": 1}


async def test_refused_connections_of_a_caller_leave_room_for_other_callers(ground: Ground) -> None:
    most = ConnectionLimits(all=4, caller=1, turned_away=1)
    async with ground.serving(most=most), ground.connected() as first, AsyncExitStack() as stack:
        assert (await first.ask()).status == 200
        for number in range(8):
            (await stack.enter_async_context(ground.connected()))
            await until(lambda: ground.counts.refused_connections["caller"] > number)  # noqa: B023 (used at once)
        await until(lambda: ground.counts.open_connections <= 2)
        async with ground.connected("100.64.0.99:1") as other:
            assert (await other.ask()).status == 500
    assert ground.counts.refused_connections == {"all": 0, "caller": 8}


async def test_a_single_caller_cannot_take_all_connections_of_the_proxy(ground: Ground) -> None:
    async with ground.serving(most=ConnectionLimits(all=4)), AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(ground.connected()) for _ in range(3)]
        answers = [(await caller.ask()).status for caller in callers]
        async with ground.connected("100.64.0.99:1") as other:
            assert (await other.ask()).status == 500
    assert answers == [200, 200, 503]


async def test_the_number_of_connections_of_all_callers_is_limited(ground: Ground) -> None:
    async with ground.serving(most=ConnectionLimits(all=1)):
        async with ground.connected(""), ground.connected("") as second:
            answer = await second.answer()
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert await second.rest() == b""
        await until(lambda: ground.counts.open_connections == 0)
        async with ground.connected() as third:
            assert (await third.ask()).status == 200
    assert ground.counts.refused_connections == {"all": 1, "caller": 0}


async def test_the_server_accepts_connections_again_after_a_lack_of_file_descriptors(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, lacks = socket.socket.accept, [2]

    def lacking(listener: socket.socket) -> tuple[socket.socket, object]:
        if lacks[0]:
            lacks[0] -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return accept(listener)

    async with ground.serving(most=ConnectionLimits(accept_pause=0.01)):
        monkeypatch.setattr(socket.socket, "accept", lacking)
        async with ground.connected() as caller:
            assert (await caller.ask()).status == 200
    assert lacks == [0]


async def test_an_unforeseen_error_ends_only_one_connection_and_its_log_line_has_no_message(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    message = "-".join(["Bearer", "abc"])

    async def fail(_: Session) -> None:
        raise ExceptionGroup("in a task", [ValueError(message)])

    async with ground.serving(), ground.connected() as open_before:
        assert (await open_before.ask()).status == 200
        with monkeypatch.context() as patched:
            patched.setattr(Session, "serve", fail)
            async with ground.connected() as caller:
                assert await caller.rest() == b""
        assert (await open_before.ask()).status == 200
    assert "ValueError" in caplog.text
    assert message not in caplog.text


async def test_connections_end_when_the_server_ends(ground: Ground) -> None:
    async with AsyncExitStack() as stack:
        async with ground.serving():
            callers: list[Connection] = [await stack.enter_async_context(ground.connected()) for _ in range(3)]
            for caller in callers:
                assert (await caller.ask()).status == 200
        assert await asyncio.gather(*(caller.rest() for caller in callers)) == [b""] * 3
