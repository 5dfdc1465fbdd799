"""The search for a recorder that takes a recording, the upload of the recording, and faults of recorders."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.recording.dialling import RecorderLimits
from tsoperator.apiproxy.recording.http2 import FRAME, Acknowledgements, FrameLimits
from tsoperator.apiproxy.recording.recorder import RecorderSearch, Upload

from tests.support.apiproxy import until
from tests.support.localapi import LocalApiWithCallers
from tests.support.recorder import Recorder

ADDRESS, SECOND = "100.64.0.9:80", "[fd7a:115c:a1e0::9]:80"
USUAL = RecorderLimits()
QUICK = RecorderLimits(dial=0.2, probe=0.2, search=1.0, patience=0.3)


class Recordings:
    """A tailnet to which `have` adds recorders. `search` looks for one of them; `upload` begins an upload to one."""

    def __init__(self, tailscaled: LocalApiWithCallers, socket: Path, stack: AsyncExitStack) -> None:
        self.tailscaled = tailscaled
        self._dial = LocalApi(socket).dial
        self._stack = stack

    async def have(self, recorder: Recorder, address: str = ADDRESS) -> Recorder:
        await self._stack.enter_async_context(recorder.listening())
        self.tailscaled.devices[address] = recorder.port
        return recorder

    def search(self, *addresses: str, limits: RecorderLimits = USUAL) -> RecorderSearch:
        return RecorderSearch(self._dial, addresses or (ADDRESS,), limits)

    @asynccontextmanager
    async def upload(self, *addresses: str, limits: RecorderLimits = USUAL) -> AsyncIterator[Upload]:
        search = self.search(*addresses, limits=limits)
        await search.reach()
        upload = await search.begin()
        running = asyncio.create_task(upload.run())
        try:
            yield upload
        finally:
            running.cancel()
            await asyncio.wait([running])


@pytest.fixture
async def tailnet(tmp_path: Path) -> AsyncIterator[Recordings]:
    tailscaled, socket = LocalApiWithCallers(), tmp_path / "tailscaled.sock"
    async with tailscaled.listening(socket), AsyncExitStack() as stack:
        yield Recordings(tailscaled, socket, stack)


@pytest.mark.parametrize(
    ("recorder", "requests"),
    [
        (Recorder(), ["HEAD /v2/record", "POST /v2/record"]),
        (Recorder(has_second_version=False), ["POST /record"]),
    ],
    ids=["v2", "v1"],
)
async def test_a_recorder_gets_the_whole_recording(
    tailnet: Recordings, recorder: Recorder, requests: list[str]
) -> None:
    await tailnet.have(recorder)
    data = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(1 << 15))
    async with tailnet.upload() as upload:
        for start in range(0, len(data), 5000):
            await upload.write(data[start : start + 5000])
        await upload.finish()
    assert recorder.complete == [data]
    assert recorder.requests == requests


async def test_small_pieces_of_a_recording_are_sent_in_one_frame(tailnet: Recordings) -> None:
    recorder = await tailnet.have(Recorder(largest_frame=FRAME))
    async with tailnet.upload(limits=RecorderLimits(gather=1)) as upload:
        for _ in range(3 * FRAME // 256):
            await upload.write(b"x" * 256)
        await until(lambda: len(recorder.frames) == 3)
        for _ in range(50):
            await upload.write(b"x")
            await asyncio.sleep(0)
        await until(lambda: len(recorder.frames) == 4)
        for _ in range(3 * FRAME // 256):
            await upload.write(b"x" * 256)
        await upload.finish()
    assert recorder.frames == [*[FRAME] * 3, 50, *[FRAME] * 3]


async def test_a_recorder_soon_gets_a_small_output_such_as_that_for_a_key_press(tailnet: Recordings) -> None:
    recorder = await tailnet.have(Recorder())
    async with tailnet.upload() as upload:
        start = time.monotonic()
        await upload.write(b"x")
        assert time.monotonic() - start < 0.04
        await until(lambda: recorder.frames == [1])
        assert time.monotonic() - start < 1


FAULTS = {
    "nobody listens": (None, "dial failure: connection refused"),
    "it hangs": (Recorder(hangs=True), "answered within 0.2 s"),
    "it refuses": (Recorder(status=507), "status 507"),
    "it refuses by HTTP/1.1": (Recorder(status=507, has_second_version=False), "status 507"),
}


@pytest.mark.parametrize(("first", "words"), FAULTS.values(), ids=FAULTS)
async def test_the_next_recorder_gets_the_recording_if_the_first_recorder_fails(
    tailnet: Recordings, first: Recorder | None, words: str
) -> None:
    if first:
        await tailnet.have(first)
    with pytest.raises(RecordingFailed, match=words):
        async with tailnet.upload(limits=QUICK):
            pass
    second = await tailnet.have(Recorder(), SECOND)
    async with tailnet.upload(ADDRESS, SECOND, limits=RecorderLimits(probe=0.5)) as upload:
        await upload.write(b"data")
        await upload.finish()
    assert second.complete == [b"data"]


async def test_the_error_names_the_reasons_of_all_recorders_that_cannot_be_reached(tailnet: Recordings) -> None:
    tailnet.tailscaled.outside.add(SECOND)
    with pytest.raises(RecordingFailed) as caught:
        await tailnet.search(ADDRESS, SECOND).reach()
    refused = f"{ADDRESS}: tailscaled answers with status 502: dial failure: connection refused"
    assert str(caught.value) == f"{refused}; {SECOND}: it isn't in the tailnet"


async def test_a_search_without_addresses_finds_no_recorder(tailnet: Recordings) -> None:
    with pytest.raises(RecordingFailed, match="no recorder"):
        await RecorderSearch(LocalApi(Path("/")).dial, [], QUICK).reach()


ENDS = {
    "no acknowledgements": (Recorder(acknowledges=False), "acknowledged nothing for 0.3 s"),
    "an error": (Recorder(fails_after=4), "the disk is {full}"),
    "a reset": (Recorder(breaks_off_after=4), "broken off the recording"),
    "too early an end": (Recorder(ends_after=4), "ended the recording"),
}


@pytest.mark.parametrize(("recorder", "words"), ENDS.values(), ids=ENDS)
async def test_an_upload_notices_that_its_recorder_fails_even_if_nothing_is_written(
    tailnet: Recordings, recorder: Recorder, words: str
) -> None:
    await tailnet.have(recorder)
    async with tailnet.upload(limits=QUICK) as upload:
        await upload.write(b"data")
        async with asyncio.timeout(5):
            assert words in str(await upload.failed())
        with pytest.raises(RecordingFailed):
            await upload.write(b"more")
        with pytest.raises(RecordingFailed):
            await upload.finish()


@pytest.mark.parametrize("has_second_version", [True, False])
async def test_an_upload_fails_if_its_recorder_hangs_or_goes_away(
    tailnet: Recordings, has_second_version: bool
) -> None:
    recorder = await tailnet.have(Recorder(has_second_version=has_second_version))
    async with tailnet.upload(limits=QUICK) as upload:
        await upload.write(b"data")
        await until(lambda: bool(recorder.frames))
        recorder.hangs = True
        with pytest.raises(RecordingFailed, match=r"0\.3 s"):
            await fill(upload)
    recorder.hangs = False
    async with tailnet.upload(limits=QUICK) as upload:
        await upload.write(b"data")
        await until(lambda: len(recorder.recordings) > 1 and bool(recorder.recordings[1]))
        tailnet.tailscaled.cut()
        async with asyncio.timeout(5):
            assert "closed" in str(await upload.failed())


@pytest.mark.parametrize(
    ("recorder", "words"),
    [(Recorder(babbles=True, window=0), "taken nothing"), (Recorder(babbles=True), "doesn't end")],
    ids=["takes nothing", "never ends"],
)
async def test_an_upload_fails_if_its_recorder_only_sends_acknowledgements(
    tailnet: Recordings, recorder: Recorder, words: str
) -> None:
    await tailnet.have(recorder)
    async with tailnet.upload(limits=QUICK) as upload:
        await upload.write(b"data")
        async with asyncio.timeout(10):
            with pytest.raises(RecordingFailed, match=words):
                await upload.finish()


async def test_a_write_that_waits_for_a_recorder_fails_when_the_recorder_fails(tailnet: Recordings) -> None:
    recorder = await tailnet.have(Recorder())
    async with tailnet.upload(limits=QUICK) as upload:
        recorder.hangs = True
        await upload.write(b"x" * (2 << 20))  # more than the window of HTTP/2 has room for
        with pytest.raises(RecordingFailed):
            await upload.write(b"x" * (5 * FRAME))


async def fill(upload: Upload) -> None:
    """Write to *upload* again and again, until a write fails."""
    while True:
        await upload.write(b"x" * FRAME)


async def test_a_slow_recorder_makes_the_writer_of_a_recording_wait(tailnet: Recordings) -> None:
    recorder = await tailnet.have(Recorder())
    async with tailnet.upload() as upload:
        recorder.hangs = True
        filling = asyncio.ensure_future(fill(upload))
        await asyncio.wait([filling], timeout=0.5)
        assert not filling.done()  # it can't write more than the window of HTTP/2 has room for
        filling.cancel()


async def test_an_upload_with_timely_acknowledgements_can_last_longer_than_the_limit_for_one_acknowledgement(
    tailnet: Recordings,
) -> None:
    recorder = await tailnet.have(Recorder())
    start = time.monotonic()
    async with tailnet.upload(limits=RecorderLimits(patience=1)) as upload:
        while time.monotonic() < start + 1.5:
            number = len(recorder.frames)
            await upload.write(b"x")
            await until(lambda before=number: len(recorder.frames) > before)  # type: ignore[misc]
        await upload.finish()


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_random_acknowledgements_raise_no_other_error_than_that_of_a_failed_recording(pieces: list[bytes]) -> None:
    parser = Acknowledgements()
    for piece in (b'{"ack":1}\n', *pieces):
        try:
            parser.feed(piece)
        except RecordingFailed:
            break


@pytest.mark.parametrize("text", [b"[]", b"1", b'{"a":' * 2000, b"{" + b" " * 5000, b"\xff", b'{"error":"full"}', b"x"])
def test_malformed_acknowledgements_make_the_recording_fail(text: bytes) -> None:
    with pytest.raises(RecordingFailed):
        Acknowledgements().feed(text)


def test_acknowledgements_that_come_in_pieces_are_counted_once() -> None:
    parser = Acknowledgements()
    assert [parser.feed(piece) for piece in (b'{"ack":1}\n{"a', b"c", b'k":2} {}', b"\n")] == [1, 0, 2, 0]


def frame(kind: int, payload: bytes, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, 0]) + stream.to_bytes(4) + payload


ACK = frame(0, b'{"ack":1}', 1) + frame(6, bytes(8))


@pytest.mark.parametrize(
    "frames",
    [
        [frame(4, bytes(606))],
        [frame(4, bytes(300)), ACK, frame(4, bytes(306))],
        [frame(1, bytes(2049), 1)],
        [frame(0, bytes(16384), 1), frame(9, bytes(16384), 1)],
    ],
    ids=["settings", "settings in two frames", "a head", "the rest of a head"],
)
def test_a_recording_fails_if_its_recorder_sends_frames_that_would_cost_much_memory(frames: list[bytes]) -> None:
    limits = FrameLimits()
    for each in frames[:-1]:
        for at in range(len(each)):
            limits.check(each[at : at + 1])
    with pytest.raises(RecordingFailed, match="too long"):
        limits.check(frames[-1])
