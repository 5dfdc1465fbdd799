"""Finds a recorder in the tailnet for a recording, and sends the recording there."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.recording.dialling import Dial, RecorderLimits, dialled, words
from tsoperator.apiproxy.recording.http1 import Http1Connection, Http1Recorder
from tsoperator.apiproxy.recording.http2 import FRAME, Http2Recorder
from tsoperator.apiproxy.stream import SocketStream

_T = TypeVar("_T")
_MOST_GATHERED: Final = 4 * FRAME
"""The most bytes that we let wait for a recorder. While so many wait, the session's output waits, too."""


class _Recorder(Protocol):
    """A connection to a recorder, by HTTP/1.1 or by HTTP/2."""

    async def begin(self) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> None: ...

    async def watch(self) -> None: ...

    def close(self) -> None: ...


class Upload:
    """The upload of a recording to a recorder. Small pieces are gathered before they are sent."""

    def __init__(self, recorder: _Recorder, address: str, limits: RecorderLimits) -> None:
        self._recorder = recorder
        self._address = address
        self._limits = limits
        self._gathered: list[bytes] = []
        self._size = 0
        """The number of gathered bytes."""
        self._has_some = asyncio.Event()
        self._has_enough = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_ending = False
        self._is_over = asyncio.Event()
        self._failure: RecordingFailed | None = None

    async def run(self) -> None:
        """Send the written bytes, until the recorder has the whole recording or fails. Raises nothing."""
        is_complete = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.watch())
                group.create_task(self._send())
            is_complete = True
        except* (OSError, RecordingFailed) as errors:
            self._failure = RecordingFailed(f"{self._address}: {words(errors.exceptions[0])}")
        finally:
            if not is_complete and not self._failure:
                self._failure = RecordingFailed(f"{self._address}: it was stopped")
            self._is_over.set()
            self._has_room.set()
            self._recorder.close()

    async def write(self, data: bytes) -> None:
        """Add *data* to the bytes for the recorder. If too many bytes wait, wait for the recorder.

        Raises RecordingFailed.
        """
        if self._failure:
            raise self._failure
        self._gathered.append(data)
        self._size += len(data)
        self._has_some.set()
        if self._size >= FRAME:
            self._has_enough.set()
        if self._size > _MOST_GATHERED:
            self._has_room.clear()
            await self._has_room.wait()
            if self._failure:
                raise self._failure

    async def failed(self) -> RecordingFailed:
        """Wait until the recording fails, and return why. If it doesn't fail, wait for ever."""
        await self._is_over.wait()
        if self._failure is None:
            await asyncio.get_running_loop().create_future()
            raise AssertionError  # nobody sets the result
        return self._failure

    async def finish(self) -> None:
        """Say that the recording is complete, and wait until the recorder has it. Raises RecordingFailed."""
        self._is_ending = True
        self._has_some.set()
        self._has_enough.set()
        await self._is_over.wait()
        if self._failure:
            raise self._failure

    async def _send(self) -> None:
        """Send the gathered bytes, again and again. Raises OSError and RecordingFailed."""
        while not (self._is_ending and not self._gathered):
            await self._has_some.wait()
            if not self._has_enough.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.gather):
                        await self._has_enough.wait()
            await self._recorder.send(self._taken())
        await self._recorder.end()

    def _taken(self) -> bytes:
        """Return the gathered bytes, and forget them."""
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._size = 0
        self._has_room.set()
        if not self._is_ending:
            self._has_some.clear()
            self._has_enough.clear()
        return data


class RecorderSearch:
    """The search for a recorder that takes one recording. The *addresses* are tried in their order."""

    def __init__(self, dial: Dial, addresses: Sequence[str], limits: RecorderLimits) -> None:
        self._dial = dial
        self._left = [*addresses]
        self.limits = limits
        self._failures: list[str] = []
        self._seconds = limits.search
        self._address = ""
        self._reached: _Recorder | None = None

    async def reach(self) -> None:
        """Find a recorder that answers. If none answers, raise RecordingFailed with the reasons of all recorders."""
        await self._limited(self._reach_next())

    async def begin(self) -> Upload:
        """Begin the recording at the recorder that `reach` has found. If that recorder refuses, try the next ones.

        Raises RecordingFailed.
        """
        return await self._limited(self._begin())

    def close(self) -> None:
        """Close the connection to the recorder that `reach` has found, if no recording uses the connection."""
        if self._reached is not None:
            self._reached.close()
            self._reached = None

    async def _limited(self, attempt: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of *attempt*. Raises the errors of *attempt*.

        If the time for the whole search is over before *attempt* has ended, raises RecordingFailed with all reasons.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            async with asyncio.timeout(self._seconds):
                return await attempt
        except TimeoutError:
            self._note(RecordingFailed(f"no recorder has begun the recording within {self.limits.search:g} s"))
            self.close()
            raise self._failed() from None
        finally:
            self._seconds -= loop.time() - start

    async def _begin(self) -> Upload:
        while True:
            if self._reached is None:
                await self._reach_next()
            else:
                try:
                    await self._answered(self._reached.begin())
                except (OSError, RecordingFailed) as error:
                    self._note(error)
                    self.close()
                else:
                    recorder, self._reached = self._reached, None
                    return Upload(recorder, self._address, self.limits)

    async def _reach_next(self) -> None:
        while self._left:
            self._address = self._left.pop(0)
            try:
                self._reached = await self._connect()
            except (OSError, RecordingFailed) as error:
                self._note(error)
            else:
                return
        raise self._failed()

    async def _connect(self) -> _Recorder:
        """Return a connection by HTTP/2 if the recorder knows recordings by HTTP/2, else one by HTTP/1.1."""
        recorder = Http2Recorder(*await self._dialled(), self._address, self.limits.patience)
        has_second = False
        try:
            has_second = await self._answered(recorder.is_supported())
        finally:
            if not has_second:
                recorder.close()
        if has_second:
            return recorder
        return Http1Recorder(Http1Connection(*await self._dialled()), self._address, self.limits.patience)

    async def _answered(self, question: Coroutine[Any, Any, _T]) -> _T:
        """Await the answer of a recorder to a *question*. Raises OSError and RecordingFailed."""
        try:
            async with asyncio.timeout(self.limits.probe):
                return await question
        except TimeoutError:
            raise RecordingFailed(f"it hasn't answered within {self.limits.probe:g} s") from None

    async def _dialled(self) -> tuple[SocketStream, bytes]:
        return await dialled(self._dial, self._address, self.limits)

    def _note(self, error: Exception) -> None:
        self._failures.append(f"{self._address}: {words(error)}")

    def _failed(self) -> RecordingFailed:
        return RecordingFailed("; ".join(self._failures) or "there is no recorder")
