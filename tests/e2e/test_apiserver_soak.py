"""The memory of the API server proxy doesn't grow in ten minutes of sessions, watches and recorder restarts.

The program runs as a process of its own, between a light client and simulations of tailscaled, the API server and the
recorder. Twenty real `kubectl exec` a second would be too much for two cores.
"""

import asyncio
import contextlib
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.operator.apiproxy.recording.test_spdy import OPENING, data_frame
from tests.operator.apiproxy.recording.test_spdy import SIZE as SPDY_SIZE
from tests.operator.apiproxy.recording.test_websocket import MASK, SIZE, frame
from tests.support.apiproxy import ALICE, Connection, Ground, grounded, proxy_process, until
from tests.support.echoserver import Peer
from tests.support.localapi import CAPABILITY, user
from tests.support.recorder import Recorder

# The mark `thorough` keeps this test out of CI's shares of `full`: it would double the time of a share.
pytestmark = [pytest.mark.full, pytest.mark.thorough]

SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "10"))
RATE = 20  # sessions opened a second
WATCHES = 50
RESTART = min(60.0, SECONDS / 5)  # seconds from one restart of the recorder to the next
AWAY = 1.0  # seconds for which the recorder is away at a restart
STEPS = 10  # the number of measurements of the process
LINGER = 2.5  # seconds until the proxy has forgotten all sessions
GROWTH = 1.03  # the permitted growth of blocks and bytes: one leaked object for each session would be 10 %
OUTCOMES = {
    *(f"{kind}: {outcome}" for kind in ("enforced", "open") for outcome in ("complete", "vanished")),
    "enforced: refused with 403",
    "recordings",
}
"""The outcomes of sessions that the test allows. A session that continues without its recorder counts as complete."""
RECORDER = "100.64.0.9:80"
BOB = "100.64.0.8:50001"
"""The address of a caller whose sessions continue if they can't be recorded. Alice's sessions end in that case."""
POD = "/api/v1/namespaces/default/pods/web/exec"
WATCH = "/api/v1/pods"
TEXT = b"one line of a log\n" * 50
VANISHES = 10  # one in so many clients goes away in the middle of its session

Say = Callable[[object], None]


class Kind(NamedTuple):
    """A sort of sessions: the bytes that the client sends by one protocol, and the bytes that it receives."""

    upgrade: str
    opening: bytes
    output: bytes


KINDS = (
    Kind("SPDY/3.1", OPENING + data_frame(5, SPDY_SIZE), data_frame(1, TEXT) * 4 + data_frame(3, b"oops")),
    Kind("websocket", frame(0x82, SIZE, MASK), frame(0x82, b"\1" + TEXT) * 4 + frame(0x88, b"")),
)


class Size(NamedTuple):
    """The memory that the proxy's process uses, and its numbers of file descriptors and asyncio tasks."""

    descriptors: int
    tasks: int
    blocks: int
    """The number of small memory blocks. Python's objects are in such blocks."""
    allocated: int
    """The bytes in larger memory blocks."""
    memory: int
    """The resident memory in bytes. Allocators can't give all unused memory back to the kernel."""


@dataclass
class Soak:
    """The proxy's process under load."""

    ground: Ground
    child: asyncio.subprocess.Process
    log: Path
    recorder: Recorder = field(default_factory=Recorder)
    outcomes: Counter[str] = field(default_factory=Counter)
    watched: Counter[int] = field(default_factory=Counter)
    """The number of bytes that each watch has received."""

    async def size(self) -> Size:
        """Return the present figures of the process."""
        said = re.compile(r"size: (\d+) (\d+) (\d+)\n")
        before = len(said.findall(self.log.read_text()))
        self.child.send_signal(signal.SIGUSR1)
        await until(lambda: len(said.findall(self.log.read_text())) > before)
        tasks, blocks, allocated = map(int, said.findall(self.log.read_text())[-1])
        folder = Path(f"/proc/{self.child.pid}")
        memory = re.findall(r"^Rss: +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)[0]
        descriptors = len(os.listdir(folder / "fd"))  # noqa: PTH208 (no pathlib in a coroutine)
        return Size(descriptors, tasks, blocks, allocated, int(memory) * 1024)

    @asynccontextmanager
    async def watches(self) -> AsyncIterator[None]:
        """Open watches, and read them during the block."""
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            connections = [await stack.enter_async_context(self.ground.connected()) for _ in range(WATCHES)]
            readers = [group.create_task(self._watch(*each)) for each in enumerate(connections)]
            await until(lambda: len(self.watched) == WATCHES)
            yield
            for reader in readers:
                reader.cancel()

    async def _watch(self, number: int, connection: Connection) -> None:
        connection.send(f"GET {WATCH}?watch=1 HTTP/1.1\r\nHost: k8s\r\n\r\n")
        while data := await connection.reader.read(1 << 16):
            self.watched[number] += len(data)
        self.outcomes["watches that ended"] += 1

    async def load(self, seconds: float) -> None:
        """Open sessions for some *seconds*, and wait until all have ended."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * RATE)):
                await asyncio.sleep(start + number / RATE - loop.time())
                group.create_task(self._session(number))

    async def _session(self, number: int) -> None:
        kind, caller = KINDS[number % 2], (ALICE, BOB)[number // 2 % 2]
        async with self.ground.connected(caller) as connection:
            upgrade = f"Connection: Upgrade\r\nUpgrade: {kind.upgrade}"
            connection.send(f"POST {POD}?command=cat&tty=true HTTP/1.1\r\nHost: k8s\r\n{upgrade}\r\n\r\n")
            status, _ = await connection.head()
            if number % VANISHES and status == 101:
                connection.send(kind.opening)
                output = await connection.rest()
                outcome = "complete" if output == kind.output else "ended early"
            else:
                outcome = "vanished" if status == 101 else f"refused with {status}"
            self.outcomes[f"{'enforced' if caller == ALICE else 'open'}: {outcome}"] += 1

    async def restarts(self) -> None:
        """Run the recorder, and restart it again and again."""
        while True:
            async with self.recorder.listening():
                self.ground.tailscaled.devices[RECORDER] = self.recorder.port
                await asyncio.sleep(RESTART - AWAY)
            self.outcomes["recordings"] += len(self.recorder.complete)
            self.recorder.complete.clear()
            self.recorder.recordings.clear()
            self.ground.tailscaled.cut()
            await asyncio.sleep(AWAY)


def serve_session(peer: Peer, head: bytes) -> None:
    """Play the API server for a session: send the output after the client has sent the first bytes."""
    kind = next(kind for kind in KINDS if kind.upgrade.encode() in head)
    peer.send(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {kind.upgrade}\r\n\r\n".encode())
    if peer.read_exactly(len(kind.opening)) == kind.opening:
        peer.send(kind.output)
    peer.close()


def serve_watch(peer: Peer, _: bytes) -> None:
    """Play the API server for a watch: send a line each second until the client goes away."""
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    never = threading.Event()
    while not never.wait(1.0):
        peer.send(b"3\r\n{}\n\r\n")


@pytest.fixture
async def soak(tmp_path: Path) -> AsyncIterator[Soak]:
    """The proxy's process, with a recorder that restarts again and again."""
    log = tmp_path / "log"
    async with grounded(tmp_path) as ground:
        for caller, enforced in ((ALICE, True), (BOB, False)):
            who = user("alice@example.org", "system:masters")
            who["CapMap"][CAPABILITY].append({"recorderAddrs": [RECORDER], "enforceRecorder": enforced})
            ground.tailscaled.callers[caller] = who
        ground.api.scripts.update({POD: serve_session, WATCH: serve_watch})
        with log.open("wb") as file:
            async with proxy_process(ground, file) as child:
                await until(lambda: "serving callers" in log.read_text())
                soak = Soak(ground, child, log)
                restarting = asyncio.create_task(soak.restarts())
                yield soak
                restarting.cancel()
                await asyncio.wait([restarting])


@pytest.mark.timeout(SECONDS + 120, func_only=True)
async def test_the_memory_of_the_api_server_proxy_does_not_grow_under_sessions_watches_and_recorder_restarts(
    soak: Soak, say: Say
) -> None:
    async with soak.watches():
        before, sizes = await soak.size(), []
        for _ in range(STEPS):
            await soak.load(SECONDS / STEPS)
            await asyncio.sleep(LINGER)
            sizes.append(await soak.size())
            say(f"{sizes[-1]}, before all sessions: {before}, {dict(soak.outcomes)}")
    assert {(size.descriptors, size.tasks) for size in sizes} == {(before.descriptors, before.tasks)}
    assert sizes[-1].blocks < sizes[0].blocks * GROWTH
    assert sizes[-1].allocated < sizes[0].allocated * GROWTH
    assert set(soak.outcomes) == OUTCOMES
