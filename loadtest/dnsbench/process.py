"""A server process on one CPU core. It has its own session, is measured from /proc, and is ended by process ID."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dnsbench.errors import BenchError

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 30
_STOP_SECONDS = 5
_LOG_LINES = 10


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that the benchmark needs."""

    pid: int
    ended: bool
    session: int
    cpu_ticks: int
    rss_pages: int

    @classmethod
    def parse(cls, text: str) -> "Stat":
        """Read the line of /proc/PID/stat; the command in it can have spaces and brackets (proc(5))."""
        pid, _, rest = text.partition(" ")
        fields = rest[rest.rindex(")") + 2 :].split()
        return cls(int(pid), fields[0] in "ZX", int(fields[3]), int(fields[11]) + int(fields[12]), int(fields[21]))


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. *pid* is the ID of its first process.

    All processes in the session of the first process belong to the server.
    """

    pid: int
    port: int

    @property
    def cpu_seconds(self) -> float:
        """The user and system time of all threads of all processes of the server so far."""
        return sum(stat.cpu_ticks for stat in _session(self.pid)) / _TICKS

    @property
    def rss_bytes(self) -> int:
        """The sum of the resident memory of the server's processes, in bytes; shared memory counts once per process."""
        return sum(stat.rss_pages for stat in _session(self.pid)) * os.sysconf("SC_PAGESIZE")


def _session(pid: int) -> list[Stat]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            stat = Stat.parse(path.read_text())
            if stat.session == pid and not stat.ended:
                found.append(stat)
    return found


@contextlib.contextmanager
def running(command: Sequence[str], core: int, port: int, log: Path, is_ready: Callable[[], bool]) -> Iterator[Server]:
    """Run a server by *command* on *core* until the block ends. Raises BenchError if it isn't ready in time."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own words
            [*_as_in_a_pod(), "taskset", "-c", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, log, is_ready)
        yield Server(process.pid, port)
        if process.poll() is not None:
            raise BenchError(f"{command[0]} ended with code {process.returncode}: {_tail(log)}")
    finally:
        _end(process)


def _as_in_a_pod() -> list[str]:
    """Return the first words of a command that limits a server's receive buffers as in a Pod.

    With the capability NET_ADMIN, which a Pod lacks, a server could get larger buffers.
    """
    return ["setpriv", "--inh-caps=-net_admin", "--bounding-set=-net_admin"] if os.geteuid() == 0 else []


def _wait_until_ready(process: "subprocess.Popen[bytes]", log: Path, is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_ready():
        if process.poll() is not None:
            raise BenchError(f"it ended with code {process.returncode}: {_tail(log)}")
        if time.monotonic() > deadline:
            raise BenchError(f"it doesn't answer after {_START_SECONDS} s: {_tail(log)}")
        time.sleep(0.05)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the first process to end, and kill the processes that remain in its session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):  # the process still runs: the loop below kills it
        process.wait(_STOP_SECONDS)
    deadline = time.monotonic() + _STOP_SECONDS
    while (left := _session(process.pid)) and time.monotonic() < deadline:
        for stat in left:
            with contextlib.suppress(ProcessLookupError):  # the process has ended meanwhile
                os.kill(stat.pid, signal.SIGKILL)
        time.sleep(0.01)
    process.wait(_STOP_SECONDS)
