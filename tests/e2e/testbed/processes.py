"""Processes identified by pid and start time, so that a new process with a reused pid is never taken for an old one."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed.errors import BedError

POLL = 0.05  # seconds between two looks at a condition


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine: its pid, and its start time in ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """Return the live process with *pid*. A zombie is not alive."""
        fields = _stat(pid)
        return cls(pid, int(fields[19])) if fields and fields[0] != "Z" else None

    @property
    def alive(self) -> bool:
        """Tell whether the process still runs."""
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal, if it still runs."""
        if self.alive:
            os.kill(self.pid, number)

    def end(self, grace: float) -> None:
        """End the process by SIGTERM, and kill it after *grace* seconds. If *grace* is 0, kill it at once.

        Raises: BedError: the process can't even be killed.
        """
        for number, limit in ((signal.SIGTERM, grace), (signal.SIGKILL, 30.0)):
            if limit:
                self.send(number)
            if wait_until(lambda: not self.alive, limit):
                return
        raise BedError(f"process {self.pid} doesn't end, not even by SIGKILL: see /proc/{self.pid}/stack")


def ancestors(pid: int) -> set[int]:
    """Return *pid* and the pids of its parent, its parent's parent and so on."""
    found = set()
    while pid and (fields := _stat(pid)):
        found.add(pid)
        pid = int(fields[1])
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, or no fields if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    """Return the pids of a process's live children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and fields[0] != "Z" and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def command_of(pid: int) -> str:
    """Return a process's command line. It is empty if the process is gone or has none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Call *holds* until it returns True or *seconds* have passed, and return its last result.

    The pause after each call is at least as long as the call.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if holds():
            return True
        looked = time.monotonic()
        if looked >= deadline:
            return False
        # The kernel doesn't notify us when a process ends that isn't our child. So poll.
        threading.Event().wait(max(POLL, looked - began))
