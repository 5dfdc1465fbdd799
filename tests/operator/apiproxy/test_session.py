"""One connection of a caller through the proxy, end to end: heads, bodies, upgrades and ends."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tsoperator.apiproxy.counts import ProxyCounts
from tsoperator.apiproxy.errors import ApiServerUnreachable
from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.apiproxy.session import SessionLimits
from tsoperator.apiproxy.tls import ApiServer, TlsStream

from tests.support.apiproxy import ALICE, TOKEN, Ground, until
from tests.support.echoserver import Peer, Script, last, silent
from tests.support.localapi import tagged, user

IDENTITY = ["Impersonate-User: alice@example.org", "Impersonate-Group: system:masters"]


async def test_a_request_reaches_the_api_server_under_the_identity_of_its_caller(ground: Ground) -> None:
    async with ground.serving(), ground.connected() as caller:
        answer = await caller.ask("/version", "Authorization: Bearer mine", "Impersonate-User: root")
    lines = ["GET /version HTTP/1.1", "Host: k8s.tail1234.ts.net", f"Authorization: Bearer {TOKEN}", *IDENTITY]
    assert (answer.status, answer.body.decode().split("\r\n")) == (200, [*lines, "", ""])
    assert (ground.tailscaled.asked, ground.tailscaled.hosts) == ([ALICE], {"local-tailscaled.sock"})


async def test_without_impersonation_a_request_keeps_its_own_credentials(ground: Ground) -> None:
    async with ground.serving(AccessMode.NOAUTH), ground.connected() as caller:
        answer = await caller.ask("/version", "Authorization: Bearer mine", "Impersonate-User: root")
    assert b"\r\nAuthorization: Bearer mine\r\nImpersonate-User: root\r\n\r\n" in answer.body
    assert TOKEN.encode() not in answer.body


async def test_tailscaled_gets_the_ipv6_address_of_a_caller_in_brackets(ground: Ground) -> None:
    source = "[fd7a:115c:a1e0::7]:50001"
    ground.tailscaled.callers[source] = tagged("ci.tail1234.ts.net", ["tag:ci"])
    async with ground.serving(), ground.connected(source) as caller:
        answer = await caller.ask()
    assert b"Impersonate-User: ci.tail1234.ts.net\r\nImpersonate-Group: tag:ci\r\n" in answer.body
    assert ground.tailscaled.asked == [source]


SMUGGLED = {
    "named by Connection": "Connection: Impersonate-User, Authorization\r\nImpersonate-User: root\r\n",
    "in another case": "iMPERSONATE-uSER: root\r\nauthorization: Bearer mine\r\n",
    "more than once": "Impersonate-User: root\r\nImpersonate-User: root\r\nImpersonate-Group: root\r\n",
    "with other separators": "Impersonate_User: root\r\nImpersonate_Group: root\r\n",
    "an extra field and a UID": "Impersonate-Extra-Scopes: root\r\nImpersonate-Uid: root\r\n",
}


@pytest.mark.parametrize("lines", SMUGGLED.values(), ids=SMUGGLED)
async def test_an_identity_that_a_caller_chooses_does_not_reach_the_api_server(ground: Ground, lines: str) -> None:
    async with ground.serving(), ground.connected() as caller:
        caller.send(f"GET / HTTP/1.1\r\nHost: k8s\r\n{lines}\r\n")
        head = (await caller.answer()).body.decode()
    assert ("root" in head, "mine" in head, "connection" in head.lower()) == (False, False, False)
    assert [line for line in head.split("\r\n") if "mpersonate" in line] == IDENTITY


async def test_chunk_extensions_and_trailers_of_a_request_do_not_reach_the_api_server(ground: Ground) -> None:
    body = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    ground.api.scripts["/pods"] = lambda peer, _: peer.answer(peer.read_exactly(len(body)))
    head = "POST /pods HTTP/1.1\r\nHost: k8s\r\nTransfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n\r\n"
    async with ground.serving(), ground.connected() as caller:
        caller.send(head + "3;a=b\r\nabc\r\n002\r\nde\r\n0;x\r\nImpersonate-User: root\r\n\r\n")
        assert (await caller.answer()).body == body
        assert (await caller.ask()).status == 200
    assert not [head for head in ground.api.heads if b"root" in head or b"railer" in head]


async def test_pipelined_requests_are_answered_one_after_another(ground: Ground) -> None:
    post = "POST /b HTTP/1.1\r\nHost: k8s\r\nContent-Length: 5\r\n\r\nhello"
    gets = [f"GET /{name} HTTP/1.1\r\nHost: k8s\r\n\r\n" for name in "ac"]
    async with ground.serving(), ground.connected() as caller:
        caller.send(gets[0] + post + gets[1])
        answers = [await caller.answer() for _ in range(3)]
    assert [answer.body.split()[1] for answer in answers] == [b"/a", b"/b", b"/c"]
    assert answers[1].body.endswith(b"\r\n\r\nhello")
    assert ground.api.connections == 1


async def test_interim_answers_such_as_100_continue_are_forwarded(ground: Ground) -> None:
    def script(peer: Peer, head: bytes) -> None:
        assert b"\r\nExpect: 100-continue\r\n" in head
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.answer(peer.read_exactly(5))

    ground.api.scripts["/pods"] = script
    async with ground.serving(), ground.connected() as caller:
        caller.send("POST /pods HTTP/1.1\r\nHost: k8s\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert (await caller.answer()).status == 100
        caller.send("hello")
        assert (await caller.answer()).body == b"hello"


async def test_a_client_gets_the_whole_answer_even_if_it_comes_before_the_end_of_the_request(ground: Ground) -> None:
    ground.api.scripts["/pods"] = last(b"HTTP/1.1 413 Too Large\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000)
    async with ground.serving(), ground.connected() as caller:
        caller.send(b"POST /pods HTTP/1.1\r\nHost: k8s\r\nContent-Length: 1000000\r\n\r\n" + b"y" * 900_000)
        answer = await caller.answer()
        assert (answer.status, answer.headers["connection"], len(answer.body)) == (413, "close", 1000)
        assert await caller.rest() == b""


async def test_a_watch_gets_each_event_at_once_and_ends_when_its_client_disconnects(ground: Ground) -> None:
    ended = threading.Event()

    def script(peer: Peer, _: bytes) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.send(b"5\r\nfirst\r\n")
        assert peer.read() == b""
        ended.set()

    ground.api.scripts["/pods"] = script
    async with ground.serving(limits=SessionLimits(half_closed=0.1)):
        async with ground.connected() as caller:
            caller.send("GET /pods?watch=1 HTTP/1.1\r\nHost: k8s\r\n\r\n")
            await caller.head()
            assert await caller.reader.readexactly(10) == b"5\r\nfirst\r\n"
        await until(ended.is_set)
        await until(lambda: ground.counts.requests["forwarded"] == 1)


# The bytes and requests that the proxy can lose, and those that it must not lose

TEN_MB, CLOSE = 10_000_000, "Connection: close\r\n"


def switched(protocol: str) -> bytes:
    return f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode()


class Ending(NamedTuple):
    """The way in which an answer of 10 MB shows where its body ends.

    *head* is the head of the answer. *before* and *after* are the bytes around the body. *upgrade* has the header lines
    by which the request asks for an upgrade.
    """

    head: bytes
    before: bytes = b""
    after: bytes = b""
    upgrade: str = ""


FRAMED = {
    "with a length": Ending(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n"),
    "in a chunk": Ending(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"989680\r\n", b"\r\n0\r\n\r\n"),
    "until the end": Ending(b"HTTP/1.1 200 OK\r\n\r\n"),
    "upgraded": Ending(switched("SPDY/3.1"), upgrade="Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"),
}


@pytest.mark.parametrize("case", FRAMED.values(), ids=FRAMED)
async def test_a_slow_reader_gets_10_mb_from_a_server_that_closes_at_once(ground: Ground, case: Ending) -> None:
    closed = threading.Event()

    def script(peer: Peer, _: bytes) -> None:
        peer.send(case.head + case.before + b"x" * TEN_MB + case.after)
        peer.close()
        closed.set()

    ground.api.scripts["/log"] = script
    async with ground.serving():
        async with ground.connected() as caller:
            caller.send(f"GET /log HTTP/1.1\r\nHost: k8s\r\n{case.upgrade or CLOSE}\r\n")
            await caller.head()
            got = 0
            while not closed.is_set():
                got += len(await caller.reader.read(20_000))
                await asyncio.sleep(0.001)
            got += len(await caller.rest())
        assert got == len(case.before) + TEN_MB + len(case.after)
        await until(lambda: ground.counts.requests["forwarded"] == 1)


async def test_10_mb_arrive_whole_at_a_slow_api_server(ground: Ground) -> None:
    def script(peer: Peer, _: bytes) -> None:
        got = 0
        while got < TEN_MB:
            got += len(peer.read(50_000))
        peer.answer(str(got).encode())

    ground.api.scripts["/up"] = script
    async with ground.serving(), ground.connected() as caller:
        assert (await caller.ask("/up", method="PUT", body=b"x" * TEN_MB)).body == b"10000000"


async def test_an_answer_that_the_api_server_cuts_off_ends_at_the_same_byte_for_the_client(ground: Ground) -> None:
    ground.api.scripts["/pods"] = last(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
    async with ground.serving(), ground.connected() as caller:
        caller.send("GET /pods HTTP/1.1\r\nHost: k8s\r\n\r\n")
        await caller.head()
        assert await caller.rest() == b"hello"
        await until(lambda: ground.counts.requests["failed"] == 1)


UNUSABLE = {
    "bytes after its body": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + b"HTTP/1.1 200 OK\r\n\r\nevil"),
    "the announcement of its end": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("raw", UNUSABLE.values(), ids=UNUSABLE)
async def test_an_answer_with_connection_close_or_surplus_bytes_ends_the_connection_to_the_api_server(
    ground: Ground, raw: bytes
) -> None:
    ground.api.scripts["/pods"] = lambda peer, _: peer.send(raw)
    async with ground.serving(), ground.connected() as caller:
        assert (await caller.ask("/pods")).body == b"ok"
        assert (await caller.ask("/version")).body.startswith(b"GET /version ")
    assert ground.api.connections == 2


async def test_the_proxy_reads_only_a_little_from_a_client_that_sends_much_during_a_watch(ground: Ground) -> None:
    ground.api.scripts["/pods"] = silent
    async with ground.serving(), ground.connected() as caller:
        caller.send("GET /pods HTTP/1.1\r\nHost: k8s\r\n\r\n")
        caller.send(b"x" * 3 * TEN_MB)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await caller.writer.drain()


async def test_a_client_that_has_closed_its_sending_side_still_gets_a_slow_answer(ground: Ground) -> None:
    pieces, pause = 6, threading.Event()

    def script(peer: Peer, _: bytes) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _piece in range(pieces):
            pause.wait(0.2)
            peer.send(b"5\r\nhello\r\n")
        assert peer.read() == b""

    ground.api.scripts["/pods"] = script
    async with ground.serving(limits=SessionLimits(half_closed=1)), ground.connected() as caller:
        caller.send("GET /pods HTTP/1.1\r\nHost: k8s\r\n\r\n")
        caller.writer.write_eof()
        await caller.head()
        assert await caller.rest() == b"5\r\nhello\r\n" * pieces


# Turns of other tasks


class Burst(NamedTuple):
    """A long *request* and *answer*. From one turn of the other tasks to the next, *count* grows by at most *step*."""

    request: str
    answer: bytes
    count: Callable[[ProxyCounts], int]
    step: int
    login: str = "alice@example.org"


CHUNKS = "1\r\na\r\n" * 10_000 + "0\r\n\r\n"
CHUNKED = f"Transfer-Encoding: chunked\r\n\r\n{CHUNKS}"
GET, POST = (f"{method} /burst HTTP/1.1\r\nHost: k8s\r\n" for method in ("GET", "POST"))
BURSTS = {
    "requests that are denied": Burst(f"{GET}\r\n" * 100, b"", lambda counts: counts.requests["refused"], 1, ""),
    "interim answers": Burst(f"{GET}\r\n", b"HTTP/1.1 103 Early\r\n\r\n" * 100, lambda had: had.sent["to_client"], 100),
    "small chunks of a request": Burst(f"{POST}{CHUNKED}", b"", lambda had: had.sent["to_api_server"], 17_000),
    "small chunks of an answer": Burst(
        f"{GET}\r\n", f"HTTP/1.1 200 OK\r\n{CHUNKED}".encode(), lambda had: had.sent["to_client"], 17_000
    ),
}


@pytest.mark.parametrize("burst", BURSTS.values(), ids=BURSTS)
async def test_other_tasks_get_their_turn_while_many_bytes_come_at_once(ground: Ground, burst: Burst) -> None:
    def script(peer: Peer, _: bytes) -> None:
        peer.read_exactly(len(CHUNKS) * burst.request.count(CHUNKS))
        last(burst.answer + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(peer, b"")

    steps = []

    async def watch() -> None:
        before = 0
        while True:
            steps.append(burst.count(ground.counts) - before)
            before = burst.count(ground.counts)
            await asyncio.sleep(0)

    ground.api.scripts["/burst"] = script
    ground.tailscaled.callers[ALICE] = user(burst.login)
    async with ground.serving(limits=SessionLimits(whois=3600)), ground.connected() as caller:
        watching = asyncio.create_task(watch())
        caller.send(burst.request)
        caller.writer.write_eof()
        await caller.rest()
        watching.cancel()
    assert sum(steps) > burst.step * 1.5
    assert max(steps) <= burst.step


# Upgrades


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
async def test_one_side_of_an_upgraded_connection_can_end_while_the_other_side_still_sends(
    ground: Ground, protocol: str
) -> None:
    last_words, reads = [], threading.Event()

    def script(peer: Peer, head: bytes) -> None:
        assert f"\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n".encode() in head
        peer.send(switched(protocol) + b"early")
        peer.send(peer.read_exactly(5))
        peer.say_goodbye()  # this drops the bytes that come meanwhile
        reads.set()
        while data := peer.read():
            last_words.append(data)

    def after(peer: Peer, head: bytes) -> None:
        peer.send(switched(protocol))
        assert peer.read() == b""
        peer.send(b"last words")
        peer.close()

    ground.api.scripts |= {"/exec": script, "/attach": after}
    upgrade = f"HTTP/1.1\r\nHost: k8s\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    async with ground.serving():
        async with ground.connected() as caller:
            caller.send(f"POST /exec {upgrade}")
            assert (await caller.head())[0] == 101
            assert await caller.reader.readexactly(5) == b"early"
            caller.send("hello")
            assert await caller.rest() == b"hello"
            await until(reads.is_set)
            caller.send("goodbye")
            await until(lambda: b"".join(last_words) == b"goodbye")
        async with ground.connected() as caller:
            caller.send(f"GET /attach {upgrade}")
            await caller.head()
            caller.writer.write_eof()
            assert await caller.rest() == b"last words"
    await until(lambda: ground.counts.open_connections == 0)


@pytest.mark.parametrize("ends", ["client", "server"])
async def test_an_upgraded_connection_ends_if_one_side_ends_and_the_other_is_silent(ground: Ground, ends: str) -> None:
    def script(peer: Peer, _: bytes) -> None:
        peer.send(switched("websocket"))
        if ends == "server":
            peer.say_goodbye()
        while peer.read():
            pass
        over.wait(20)

    over = threading.Event()
    ground.api.scripts["/exec"] = script
    async with ground.serving(limits=SessionLimits(half_closed=0.1)), ground.connected() as caller:
        caller.send("GET /exec HTTP/1.1\r\nHost: k8s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        await caller.head()
        if ends == "client":
            caller.writer.write_eof()
        assert await caller.rest() == b""
        await until(lambda: ground.counts.open_connections == 0)
        over.set()


async def test_a_clients_connection_ends_if_its_upgraded_connection_breaks_at_the_api_server(ground: Ground) -> None:
    def script(peer: Peer, _: bytes) -> None:
        peer.send(switched("websocket"))
        assert peer.read() == b"x"
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.connection.close()

    ground.api.scripts["/exec"] = script
    async with ground.serving(), ground.connected() as caller:
        caller.send("GET /exec HTTP/1.1\r\nHost: k8s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nx")
        await caller.head()
        assert await caller.rest() == b""


async def test_an_api_server_that_reads_no_more_can_still_send_on_an_upgraded_connection(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failed = TlsStream.write, threading.Event()

    async def failing(stream: TlsStream, data: bytes) -> None:
        if data == b"x":
            failed.set()
            raise BrokenPipeError
        await write(stream, data)

    def script(peer: Peer, _: bytes) -> None:
        peer.send(switched("websocket"))
        assert failed.wait(20)
        peer.send(b"last words")
        peer.close()

    monkeypatch.setattr(TlsStream, "write", failing)
    ground.api.scripts["/exec"] = script
    async with ground.serving(), ground.connected() as caller:
        caller.send("GET /exec HTTP/1.1\r\nHost: k8s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nx")
        await caller.head()
        caller.writer.write_eof()
        assert await caller.rest() == b"last words"


async def test_a_refused_upgrade_leaves_the_connection_usable(ground: Ground) -> None:
    ground.api.scripts["/exec"] = lambda peer, _: peer.answer(b"no", status="403 Forbidden")
    async with ground.serving(), ground.connected() as caller:
        answer = await caller.ask("/exec", "Connection: Upgrade", "Upgrade: websocket")
        assert (answer.status, answer.body, (await caller.ask()).status) == (403, b"no", 200)


# Outages of the API server


async def test_requests_get_status_502_while_the_api_server_is_away(ground: Ground) -> None:
    async with ground.serving(), ground.connected() as caller:
        with ground.api.away():
            answer = await caller.ask()
            assert (answer.status, answer.body) == (502, b"the API server can't be reached: Connection refused\n")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert (await caller.ask(method="HEAD")).status == 502
        assert (await caller.ask()).status == 200
        await until(lambda: ground.counts.requests == {"forwarded": 1, "refused": 0, "failed": 2})


async def test_a_request_gets_status_502_if_the_api_server_does_not_answer_the_handshake(ground: Ground) -> None:
    with ground.api.away(silent=True):
        async with ground.serving(patience=0.1), ground.connected() as caller:
            assert (await caller.ask()).body == b"the API server can't be reached: no connection within 0.1 s\n"


def goodbye_with_the_answer(peer: Peer, _: bytes) -> None:
    """Send the answer and a close_notify in one packet, and leave the connection open."""
    peer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    peer.answer(b"last")
    peer.say_goodbye()
    peer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


CLOSED = {
    "at once": (last(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"), 1),
    "without a FIN": (goodbye_with_the_answer, 0),
}


@pytest.mark.parametrize(("script", "ends"), CLOSED.values(), ids=CLOSED)
async def test_an_idle_connection_that_the_api_server_has_closed_is_replaced(
    ground: Ground, script: Script, ends: int
) -> None:
    ground.api.scripts["/last"] = script
    async with ground.serving(), ground.connected() as caller:
        assert (await caller.ask("/last")).body == b"last"
        await until(lambda: not ends or ground.api.ended.acquire(blocking=False))
        assert (await caller.ask("/pods", method="POST", body=b"hello")).body.endswith(b"hello")
    assert ground.api.connections == 2


async def test_only_a_safe_request_is_sent_again_if_the_idle_connection_for_it_breaks(ground: Ground) -> None:
    def broken(peer: Peer, _: bytes) -> None:
        if ground.api.connections == 1:
            peer.close()
        else:
            peer.answer(b"second")

    ground.api.scripts["/broken"] = broken
    async with ground.serving():
        async with ground.connected() as caller:
            await caller.ask()
            assert (await caller.ask("/broken")).body == b"second"
        for method, *headers in [("DELETE",), ("GET", "Connection: Upgrade", "Upgrade: websocket")]:
            ground.api.connections = 0
            async with ground.connected() as caller:
                await caller.ask()
                assert (await caller.ask("/broken", *headers, method=method)).status == 502


async def test_the_next_request_has_the_new_token_after_the_token_file_was_replaced(ground: Ground) -> None:
    async with ground.serving(), ground.connected() as caller:
        await caller.ask()
        (ground.folder / "next").write_text("new-token")
        (ground.folder / "next").replace(ground.token)
        assert b"\r\nAuthorization: Bearer new-token\r\n" in (await caller.ask()).body
        ground.token.write_text("")
        answer = await caller.ask()
        assert (answer.status, b"the file with the token holds no token" in answer.body) == (502, True)


async def test_the_next_connection_trusts_the_new_ca_after_the_ca_file_was_replaced(ground: Ground) -> None:
    right = ground.api.ca.read_text()
    async with ground.serving():
        (ground.folder / "other").mkdir()
        other = type(ground.api)(ground.folder / "other")
        ground.api.ca.write_text(other.ca.read_text())
        async with ground.connected() as caller:
            answer = await caller.ask()
            assert answer.status == 502
            assert b"its certificate is not accepted: self-signed certificate" in answer.body
            ground.api.ca.write_text(right)
            assert (await caller.ask()).status == 200


async def test_a_certificate_of_the_api_server_for_another_name_is_not_accepted(ground: Ground) -> None:
    with pytest.raises(ApiServerUnreachable, match="its certificate is not accepted: Hostname mismatch"):
        await ApiServer("localhost", ground.api.port, ground.api.ca, None).connect()


# Refusals


async def test_a_denied_request_gets_an_answer_and_the_next_request_is_decided_anew(ground: Ground) -> None:
    ground.tailscaled.callers[ALICE] = user("")
    async with ground.serving(limits=SessionLimits(whois=0)), ground.connected() as caller:
        answer = await caller.ask()
        assert (answer.status, answer.body[-1:], "connection" in answer.headers) == (403, b"\n", False)
        assert (await caller.ask(method="HEAD")).status == 403
        async with ground.connected() as other:
            upgrade = await other.ask("/exec", "Connection: Upgrade", "Upgrade: websocket")
            assert (upgrade.status, upgrade.headers["connection"]) == (403, "close")
        ground.tailscaled.callers[ALICE] = user("alice@example.org")
        assert (await caller.ask()).status == 200
    assert (ground.counts.refusals, ground.counts.requests["refused"]) == ({"name": 3}, 3)


async def test_the_body_of_a_denied_request_is_dropped_and_doesnt_reset_the_connection(ground: Ground) -> None:
    ground.tailscaled.callers[ALICE] = user("")
    async with ground.serving(), ground.connected() as caller:
        inner = b"GET /inner HTTP/1.1\r\nHost: k8s\r\n\r\n"
        answer = await caller.ask(method="POST", body=inner + b"x" * TEN_MB)
        assert (answer.status, answer.headers["connection"]) == (403, "close")
        assert await caller.reader.read() == b""
    assert ground.api.heads == []


async def test_tailscaled_is_asked_about_the_caller_of_a_connection_once_within_the_time_limit(ground: Ground) -> None:
    async with ground.serving(limits=SessionLimits(whois=3600)):
        async with ground.connected() as caller:
            assert [(await caller.ask()).status for _ in range(3)] == [200] * 3
        async with ground.connected() as caller:
            await caller.ask()
    assert ground.tailscaled.asked == [ALICE] * 2


BAD = {
    "two hosts": ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "another upgrade": ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", 400),
    "HTTP/1.0": ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", 505),
    "a bad chunk": ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
}


@pytest.mark.parametrize(("raw", "status"), BAD.values(), ids=BAD)
async def test_a_client_whose_message_is_refused_loses_its_connection(ground: Ground, raw: str, status: int) -> None:
    ground.api.scripts["/"] = silent
    async with ground.serving(), ground.connected() as caller:
        caller.send(raw + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await caller.answer()
        assert (answer.status, answer.headers["connection"], await caller.rest()) == (status, "close", b"")
    assert not [head for head in ground.api.heads if b"/next" in head]
    assert ground.counts.requests["refused"] == 1


async def test_a_request_gets_status_502_if_the_answer_is_not_http(ground: Ground) -> None:
    ground.api.scripts["/odd"] = last(b"HTTP/1.1 OK\r\n\r\n")
    async with ground.serving(), ground.connected() as caller:
        assert (await caller.ask("/odd")).status == 502


async def test_neither_the_log_nor_an_answer_of_the_proxy_shows_a_secret(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "SECRET"
    ground.api.scripts["/odd"] = last(b"SECRET\r\n\r\n")
    heads = [
        f"GET /odd?token={secret} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\nCookie: {secret}\r\n",
        f"GET /?{secret} HTTP/1.1\r\nHost: a\r\nHost: {secret}\r\n",
        f"GET /?{secret} HTTP/1.1\r\nHost: a\r\nAuthorization: {secret}\r\nContent-Length: {secret}\r\n",
        f"GET /?{secret} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {secret}\r\n",
        f"GET /?{secret} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {secret}\r\n",
        f"{secret} /?{secret} HTTP/1.0\r\nHost: a\r\nCookie: {secret}\r\n",
        f"GET /?{secret} HTTP/1.1\r\nHost: a\r\nCookie {secret}\r\n",
    ]
    said = b""
    async with ground.serving():
        for head in heads:
            async with ground.connected() as caller:
                caller.send(f"{head}\r\n")
                said += await caller.rest()
        ground.tailscaled.callers[ALICE] = user("")
        async with ground.connected() as caller:
            caller.send(f"{heads[0]}Connection: close\r\n\r\n")
            said += await caller.rest()
    assert said.count(b"Connection: close") == len(heads) + 1
    assert (secret.encode() in said, secret in caplog.text, TOKEN in caplog.text) == (False, False, False)
    assert caplog.text.count("refused") >= len(heads)
