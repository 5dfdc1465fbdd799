"""The proxy records sessions and requests if the grants of the caller ask for it, tested from end to end."""

import asyncio
import base64
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from tsoperator.apiproxy.counts import RecordingCounts
from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.apiproxy.recording.dialling import RecorderLimits
from tsoperator.apiproxy.session import SessionLimits

from tests.operator.apiproxy.recording.test_spdy import OPENING, SIZE, data_frame
from tests.operator.apiproxy.recording.test_websocket import MASK, frame
from tests.support.apiproxy import ALICE, Connection, Ground, until
from tests.support.echoserver import Peer
from tests.support.localapi import CAPABILITY, user
from tests.support.recorder import Recorder

ADDRESS = "100.64.0.9:80"
BOB = "100.64.0.8:50001"
POD = "/api/v1/namespaces/default/pods/web"
SIZE_WAIT = 0.1


@dataclass
class Sessions:
    """The proxy with a recorder, and an API server whose Pod sends the output that a test wants."""

    ground: Ground
    recorder: Recorder = field(default_factory=Recorder)
    received: bytearray = field(default_factory=bytearray)
    """The bytes that the API server got in the session."""
    stays: bool = False
    """True if the API server ends the session only after the client has closed its side of the connection."""
    go_on: threading.Event = field(default_factory=threading.Event)
    refusal: str = ""

    @property
    def counts(self) -> RecordingCounts:
        return self.ground.counts.recordings

    def grant(self, *, enforced: bool, events: bool = False) -> None:
        """Give Alice a grant that names the recorder, with enforceRecorder=*enforced* and enableEvents=*events*."""
        who = user("alice@example.org", "system:masters")
        who["CapMap"][CAPABILITY].append(
            {"recorderAddrs": [ADDRESS], "enforceRecorder": enforced, "enableEvents": events}
        )
        self.ground.tailscaled.callers[ALICE] = who

    def answer(self, opening: bytes, *outputs: bytes, path: str = f"{POD}/exec") -> None:
        """Let the API server answer a session at *path*: it reads as many bytes as *opening* has, and sends *outputs*.

        It sends the first of *outputs* at once, and each of the others when `go_on` is set.
        """

        def script(peer: Peer, head: bytes) -> None:
            upgrade = next(line for line in head.split(b"\r\n") if line.startswith(b"Upgrade:"))
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + upgrade + b"\r\n\r\n")
            self.received += peer.read_exactly(len(opening))
            for number, output in enumerate(outputs):
                if number:
                    assert self.go_on.wait(20)
                peer.send(output)
            while self.stays and peer.read():
                pass
            peer.close()

        self.ground.api.scripts[path] = script

    @asynccontextmanager
    async def session(
        self, target: str = f"{POD}/exec", upgrade: str = "SPDY/3.1"
    ) -> AsyncIterator[tuple[Connection, int]]:
        """Ask for a session at *target* by the protocol *upgrade*; yield the connection and the answer's status."""
        async with self.ground.connected() as caller:
            caller.send(f"POST {target} HTTP/1.1\r\nHost: k8s\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n")
            status, headers = await caller.head()
            if status != 101:
                self.refusal = (await caller.reader.readexactly(int(headers["content-length"]))).decode()
            yield caller, status


@asynccontextmanager
async def recorded(ground: Ground, limits: RecorderLimits) -> AsyncIterator[Sessions]:
    sessions = Sessions(ground)
    ground.recorder_limits = limits
    async with sessions.recorder.listening():
        ground.tailscaled.devices[ADDRESS] = sessions.recorder.port
        async with ground.serving(limits=SessionLimits(linger=0.1)):
            yield sessions


@pytest.fixture
async def sessions(ground: Ground) -> AsyncIterator[Sessions]:
    async with recorded(ground, RecorderLimits(size=SIZE_WAIT)) as sessions:
        yield sessions


@pytest.fixture
async def hurried(ground: Ground) -> AsyncIterator[Sessions]:
    """A proxy that gives its recorder little time."""
    async with recorded(ground, RecorderLimits(dial=0.5, probe=0.5, search=2.0, patience=0.5)) as sessions:
        yield sessions


class Protocol(NamedTuple):
    """A session by the protocol *upgrade*: the client sends *opening*, perhaps *resize*, and the server *outputs*."""

    upgrade: str
    opening: bytes
    resize: bytes
    outputs: tuple[bytes, ...]


PROTOCOLS = {
    "SPDY": Protocol(
        "SPDY/3.1", OPENING, data_frame(5, SIZE),
        (data_frame(1, b"na\xc3"), data_frame(1, b"\xafve\n") + data_frame(3, b"oops")),
    ),
    "WebSocket": Protocol(
        "websocket", frame(0x82, b"\0ls", MASK), frame(0x82, b"\4" + SIZE, MASK),
        (frame(0x82, b"\1na\xc3"), frame(0x82, b"\1\xafve\n") + frame(0x82, b"\2oops") + frame(0x88, b"")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize("has_second_version", [True, False])
async def test_a_session_is_recorded_and_forwarded_byte_for_byte(
    sessions: Sessions, case: Protocol, enforced: bool, has_second_version: bool
) -> None:
    sessions.recorder.has_second_version = has_second_version
    sessions.grant(enforced=enforced)
    sessions.answer(case.opening, *case.outputs)
    sessions.go_on.set()
    async with sessions.session(f"{POD}/exec?command=ls&command=-l&container=main", case.upgrade) as (caller, status):
        caller.send(case.opening)
        assert (status, await caller.rest()) == (101, b"".join(case.outputs))
    await until(lambda: sessions.counts.running == 0 and bool(sessions.recorder.complete))
    header, *_ = sessions.recorder.lines()
    assert (header["command"], header["width"], header["srcNodeUser"]) == ("ls -l", 0, "alice@example.org")
    pod = {"PodName": "web", "Namespace": "default", "Container": "main", "SessionType": "exec"}
    assert header["kubernetes"] == pod
    assert sessions.recorder.output() == "naïve\noops"
    assert sessions.received == case.opening
    assert sessions.counts.sessions == {"attempted": 1, "uploaded": 1, "failed": 0}


@pytest.mark.parametrize("case", PROTOCOLS.values(), ids=PROTOCOLS)
async def test_the_recording_of_a_terminal_begins_with_the_size_that_the_client_sends(
    sessions: Sessions, case: Protocol
) -> None:
    sessions.grant(enforced=True)
    sessions.answer(case.opening + case.resize * 2, *case.outputs[:1])
    async with sessions.session(f"{POD}/exec?tty=true", case.upgrade) as (caller, _):
        caller.send(case.opening + case.resize * 2)
        assert await caller.rest() == case.outputs[0]
    await until(lambda: bool(sessions.recorder.complete))
    header, resize, *outputs = sessions.recorder.lines()
    assert (header["width"], header["height"]) == (10, 20)
    assert resize[1:] == ["r", "10x20"]
    assert "".join(line[2] for line in outputs) == "na\ufffd"


@pytest.mark.parametrize("case", PROTOCOLS.values(), ids=PROTOCOLS)
async def test_the_recording_of_a_terminal_begins_after_a_while_if_the_client_sends_no_size(
    sessions: Sessions, case: Protocol
) -> None:
    sessions.grant(enforced=True)
    sessions.answer(case.opening, *case.outputs[:1])
    async with sessions.session(f"{POD}/attach?tty=true", case.upgrade) as (_, status):
        assert status == 200  # the API server has no script for this path, and echoes the request
    async with sessions.session(f"{POD}/exec?tty=true", case.upgrade) as (caller, _):
        caller.send(case.opening)
        assert await caller.rest() == case.outputs[0]
    await until(lambda: bool(sessions.recorder.complete))
    header, *_ = sessions.recorder.lines()
    assert (header["width"], header["height"]) == (80, 24)
    assert sessions.recorder.lines()[1][0] >= SIZE_WAIT


async def test_pieces_of_output_that_come_together_become_one_line_of_the_recording(sessions: Sessions) -> None:
    sessions.grant(enforced=True)
    sessions.answer(OPENING, b"".join(data_frame(*each) for each in ((1, b"a"), (1, b"b"), (3, b"c"), (1, b"d"))))
    async with sessions.session() as (caller, _):
        caller.send(OPENING)
        await caller.rest()
    await until(lambda: bool(sessions.recorder.complete))
    assert [text for _, _, text in sessions.recorder.lines()[1:]] == ["ab", "c", "d"]


async def test_an_answer_without_an_upgrade_is_forwarded_and_not_recorded(sessions: Sessions) -> None:
    sessions.grant(enforced=True)
    sessions.ground.api.scripts[f"{POD}/exec"] = lambda peer, _: peer.answer(b"no such Pod", status="404 Not Found")
    async with sessions.session() as (_, status):
        assert (status, sessions.refusal) == (404, "no such Pod")
    assert sessions.recorder.requests == ["HEAD /v2/record"]


async def test_an_incomplete_last_frame_of_the_api_server_is_forwarded_when_the_api_server_stops_sending(
    sessions: Sessions,
) -> None:
    sessions.grant(enforced=True)
    sessions.answer(OPENING, data_frame(1, b"last") + b"\0\0\0")
    async with sessions.session() as (caller, _):
        caller.send(OPENING)
        assert await caller.rest() == data_frame(1, b"last") + b"\0\0\0"


async def test_an_incomplete_last_frame_of_the_client_is_forwarded_when_the_client_stops_sending(
    sessions: Sessions,
) -> None:
    sessions.grant(enforced=True)
    sessions.answer(OPENING + b"\0\0\0", data_frame(1, b"last"))
    async with sessions.session() as (caller, _):
        caller.send(OPENING + b"\0\0\0")
        caller.writer.write_eof()
        assert await caller.rest() == data_frame(1, b"last")
    assert sessions.received == OPENING + b"\0\0\0"


async def test_a_session_is_recorded_even_if_its_terminal_has_no_size_and_no_output(sessions: Sessions) -> None:
    sessions.grant(enforced=True)
    sessions.answer(OPENING, b"")
    async with sessions.session(f"{POD}/exec?tty=true") as (caller, _):
        caller.send(OPENING)
        await caller.rest()
    await until(lambda: bool(sessions.recorder.complete))
    (header,) = sessions.recorder.lines()
    assert (header["width"], header["height"]) == (80, 24)


async def test_no_notice_to_the_user_is_sent_in_the_middle_of_bytes_that_are_being_forwarded(hurried: Sessions) -> None:
    hurried.grant(enforced=True)
    hurried.answer(OPENING, b"".join(data_frame(1, b"x" * 32000) for _ in range(100)))
    async with hurried.session() as (caller, _):
        caller.send(OPENING)
        await until(lambda: sum(map(len, hurried.recorder.recordings)) > 64000)
        hurried.recorder.acknowledges = False
        await until(lambda: hurried.counts.sessions["failed"] == 1)
        assert b"must be recorded" not in await caller.rest()


AWAY = ["nobody listens", "it hangs", "it refuses recordings"]


def take_away(sessions: Sessions, fault: str) -> None:
    if fault == "nobody listens":
        sessions.ground.tailscaled.devices.clear()
    sessions.recorder.hangs = fault == "it hangs"
    sessions.recorder.status = 507 if fault == "it refuses recordings" else 200


@pytest.mark.parametrize("fault", AWAY)
async def test_a_session_that_must_be_recorded_is_refused_without_a_recorder(hurried: Sessions, fault: str) -> None:
    take_away(hurried, fault)
    hurried.grant(enforced=True)
    hurried.answer(OPENING)
    async with hurried.session() as (caller, status):
        assert (status, f" {ADDRESS}: " in hurried.refusal) == (403, True)
        assert await caller.rest() == b""
    assert len(hurried.ground.api.heads) == (fault == "it refuses recordings")
    assert hurried.counts.sessions == {"attempted": 1, "uploaded": 0, "failed": 1}
    assert hurried.ground.counts.refusals["recorder"] == 1


@pytest.mark.parametrize("fault", AWAY)
async def test_a_session_that_need_not_be_recorded_goes_on_without_a_recorder(
    hurried: Sessions, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    take_away(hurried, fault)
    caplog.set_level(logging.INFO)
    hurried.grant(enforced=False)
    hurried.answer(OPENING, b"no frame of SPDY")
    async with hurried.session() as (caller, status):
        caller.send(OPENING)
        assert (status, await caller.rest()) == (101, b"no frame of SPDY")
    assert hurried.received == OPENING
    assert f"{ALICE}: the recording of a session has failed: {ADDRESS}: " in caplog.text
    assert hurried.counts.sessions == {"attempted": 1, "uploaded": 0, "failed": 1}


LOSSES = ["it is killed", "it acknowledges nothing more", "its disk is full"]


def lose(sessions: Sessions, fault: str) -> None:
    if fault == "it is killed":
        sessions.ground.tailscaled.cut()
    sessions.recorder.acknowledges = False
    sessions.recorder.fails_after = 1 if fault == "its disk is full" else None


@pytest.mark.parametrize("case", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("fault", LOSSES)
async def test_a_session_that_must_be_recorded_ends_when_its_recording_fails(
    hurried: Sessions, case: Protocol, fault: str
) -> None:
    hurried.grant(enforced=True)
    hurried.answer(case.opening, *case.outputs)
    async with hurried.session(upgrade=case.upgrade) as (caller, _):
        caller.send(case.opening)
        assert await caller.reader.readexactly(len(case.outputs[0])) == case.outputs[0]
        await until(lambda: "na" in hurried.recorder.output())
        hurried.stays = True
        lose(hurried, fault)
        if fault == "its disk is full":
            hurried.go_on.set()
        told = await caller.rest()
    hurried.go_on.set()
    told = told.removeprefix(case.outputs[1])
    assert b"this session must be recorded, and that has failed: " + ADDRESS.encode() in told
    assert await asyncio.to_thread(hurried.ground.api.ended.acquire, timeout=20)
    assert (hurried.counts.sessions["failed"], hurried.counts.running) == (1, 0)


@pytest.mark.parametrize("fault", LOSSES)
async def test_a_session_that_need_not_be_recorded_goes_on_when_its_recording_fails(
    hurried: Sessions, fault: str
) -> None:
    hurried.grant(enforced=False)
    case = PROTOCOLS["SPDY"]
    more = data_frame(1, b"more")
    hurried.answer(case.opening, *case.outputs, more)
    async with hurried.session(upgrade=case.upgrade) as (caller, _):
        caller.send(case.opening)
        assert await caller.reader.readexactly(len(case.outputs[0])) == case.outputs[0]
        await until(lambda: "na" in hurried.recorder.output())
        lose(hurried, fault)
        hurried.stays = True
        if fault != "its disk is full":
            await until(lambda: hurried.counts.sessions["failed"] == 1)
        hurried.go_on.set()
        rest = case.outputs[1] + more
        assert await caller.reader.readexactly(len(rest)) == rest
        await until(lambda: hurried.counts.sessions["failed"] == 1)
    assert hurried.counts.sessions == {"attempted": 1, "uploaded": 0, "failed": 1}


@pytest.mark.parametrize("enforced", [True, False])
async def test_malformed_frames_end_their_own_session_and_no_other_connection(
    sessions: Sessions, enforced: bool
) -> None:
    sessions.grant(enforced=enforced)
    sessions.answer(OPENING, bytes(8) + b"secret")
    async with sessions.session() as (caller, _), sessions.ground.connected() as other:
        caller.send(OPENING)
        assert await caller.rest() == b""
        assert (await other.ask()).status == 200
    async with sessions.session() as (caller, _):
        caller.send(OPENING + data_frame(0, b"x"))
        assert await caller.rest() == b""
    assert sessions.ground.counts.refusals["frames-frame"] == 2


async def test_a_slow_client_gets_10_mb_of_output_that_are_all_recorded(sessions: Sessions) -> None:
    text = "".join(f"{number:09}\n" for number in range(1_000_000))
    frames = b"".join(data_frame(1, text[at : at + 32000].encode()) for at in range(0, len(text), 32000))
    sessions.grant(enforced=True)
    sessions.answer(OPENING, frames)
    async with sessions.session() as (caller, _):
        caller.send(OPENING)
        got = b""
        while data := await caller.reader.read(1 << 20):
            got += data
            await asyncio.sleep(0)
    assert got == frames
    await until(lambda: bool(sessions.recorder.complete))
    assert sessions.recorder.output() == text


UNRECORDABLE = f"{POD}/portforward"


async def test_a_session_of_a_protocol_that_cannot_be_recorded_is_refused_if_it_must_be_recorded(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sessions.answer(OPENING, b"anything", path=UNRECORDABLE)
    sessions.grant(enforced=False)
    async with sessions.session(UNRECORDABLE) as (caller, status):
        caller.send(OPENING)
        assert (status, await caller.rest()) == (101, b"anything")
    async with sessions.session(UNRECORDABLE):
        pass
    assert caplog.text.count("this proxy can't record port-forward") == 1
    sessions.grant(enforced=True)
    async with sessions.session(UNRECORDABLE) as (_, status):
        assert (status, sessions.refusal.endswith("can't record port-forward\n")) == (403, True)


@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_request_is_recorded_before_it_reaches_the_api_server(
    sessions: Sessions, enforced: bool, chunked: bool
) -> None:
    body = b'{"kind":"Pod"}' * 20_000
    sessions.grant(enforced=enforced, events=True)
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)

    def script(peer: Peer, _: bytes) -> None:
        number = len(sessions.recorder.events)
        sent = framed if chunked else body
        peer.answer(str(number).encode() if peer.read_exactly(len(sent)) == sent else b"another body")

    sessions.ground.api.scripts[POD] = script
    async with sessions.ground.connected() as caller:
        if chunked:
            caller.send(f"PUT {POD}?dryRun=All HTTP/1.1\r\nHost: k8s\r\nTransfer-Encoding: chunked\r\n\r\n")
            caller.send(b"%x;x=y\r\n%b\r\n0\r\nA: b\r\n\r\n" % (len(body), body))
            assert (await caller.answer()).body == b"1"
        else:
            assert (await caller.ask(f"{POD}?dryRun=All", method="PUT", body=body)).body == b"1"
        assert (await caller.ask()).status == 200
    first, second = map(json.loads, sessions.recorder.events)
    assert base64.b64decode(first["request"].pop("body")) == body
    assert first["request"]["path"] == f"{POD}?dryRun=All"
    assert (first["source"]["nodeUser"], second["request"]["method"]) == ("alice@example.org", "GET")
    assert sessions.counts.events == {"attempted": 2, "recorded": 2, "failed": 0}


async def test_the_body_of_a_recorded_request_reaches_the_api_server_whole(sessions: Sessions) -> None:
    sessions.grant(enforced=True, events=True)
    async with sessions.ground.connected() as caller:
        answer = await caller.ask("/pods", "Expect: 100-continue", method="POST", body=b"x" * 100_000)
        if answer.status == 100:
            answer = await caller.answer()
    assert answer.body.endswith(b"\r\n\r\n" + b"x" * 100_000)


async def test_the_proxy_sends_100_continue_to_a_client_that_waits_for_it_before_a_body_that_is_recorded(
    sessions: Sessions,
) -> None:
    sessions.grant(enforced=True, events=True)
    async with sessions.ground.connected() as caller:
        caller.send("POST /pods HTTP/1.1\r\nHost: k8s\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert (await caller.answer()).status == 100
        caller.send("hello")
        assert (await caller.answer()).body.endswith(b"hello")


LONG = 3 * (1 << 20) + 1


@pytest.mark.parametrize("length", [f"Content-Length: {LONG}", "Transfer-Encoding: chunked"])
async def test_a_request_with_a_too_long_body_is_refused_if_it_must_be_recorded_or_else_recorded_without_the_body(
    sessions: Sessions, length: str
) -> None:
    head = f"PUT {POD} HTTP/1.1\r\nHost: k8s\r\n{length}\r\n\r\n".encode()
    body = b"x" * LONG if "Length" in length else b"%x\r\n%b\r\n0\r\n\r\n" % (LONG, b"x" * LONG)
    sessions.ground.api.scripts[POD] = lambda peer, _: peer.answer(str(len(peer.read_exactly(LONG))).encode())
    sessions.grant(enforced=True, events=True)
    async with sessions.ground.connected() as caller:
        caller.send(head + body)
        answer = await caller.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
    sessions.grant(enforced=False, events=True)
    async with sessions.ground.connected() as caller:
        caller.send(head + body)
        assert (await caller.answer()).body == str(LONG).encode()
    (event,) = sessions.recorder.events
    assert json.loads(event)["request"]["body"] == ""


async def test_bodies_of_one_device_that_wait_for_a_recorder_leave_room_for_bodies_of_other_devices(
    ground: Ground,
) -> None:
    put = f"PUT {POD} HTTP/1.1\r\nHost: k8s\r\nContent-Length: 700\r\n\r\n" + "x" * 600
    async with recorded(ground, RecorderLimits(waiting=2000, waiting_of_one=1000)) as sessions:
        sessions.grant(enforced=True, events=True)
        ground.tailscaled.callers[BOB] = {**ground.tailscaled.callers[ALICE], "Node": {"Name": "b.", "StableID": "n2"}}
        async with ground.connected() as first, ground.connected() as second:
            first.send(put)
            await until(lambda: sessions.counts.events["attempted"] == 1)
            second.send(put)
            assert (await second.answer()).status == 503
            async with ground.connected(BOB) as other:
                other.send(put + "x" * 100)
                assert (await other.answer()).status == 200


async def test_a_request_that_must_be_recorded_is_refused_if_the_framing_of_its_body_is_too_long(
    sessions: Sessions,
) -> None:
    sessions.grant(enforced=True, events=True)
    chunk = b"1;" + b"x" * 240 + b"\r\na\r\n"
    async with sessions.ground.connected() as caller:
        caller.send(f"PUT {POD} HTTP/1.1\r\nHost: k8s\r\nTransfer-Encoding: chunked\r\n\r\n")
        caller.send(chunk * ((5 << 20) // len(chunk)) + b"0\r\n\r\n")
        assert (await caller.answer()).status == 413


@pytest.mark.parametrize("status", [404, 500])
async def test_a_request_that_must_be_recorded_is_refused_if_no_recorder_takes_its_event(
    sessions: Sessions, status: int
) -> None:
    sessions.recorder.events_status = status
    sessions.grant(enforced=True, events=True)
    async with sessions.ground.connected() as caller:
        answer = await caller.ask()
        assert (answer.status, ADDRESS.encode() in answer.body) == (502, True)
        sessions.grant(enforced=False, events=True)
        await until(lambda: True)
    assert sessions.ground.api.heads == []
    async with sessions.ground.connected() as caller:
        assert (await caller.ask()).status == 200
    assert sessions.counts.events == {"attempted": 2, "recorded": 0, "failed": 2}


async def test_sessions_are_recorded_in_noauth_mode(ground: Ground) -> None:
    sessions = Sessions(ground)
    async with sessions.recorder.listening(), ground.serving(AccessMode.NOAUTH):
        ground.tailscaled.devices[ADDRESS] = sessions.recorder.port
        sessions.grant(enforced=True)
        sessions.answer(OPENING, *PROTOCOLS["SPDY"].outputs[:1])
        async with sessions.session() as (caller, _):
            caller.send(OPENING)
            await caller.rest()
        await until(lambda: bool(sessions.recorder.complete))
    assert sessions.recorder.output() == "na\ufffd"
