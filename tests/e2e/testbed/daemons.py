"""The background programs of a bed.

Each has a session and a log of its own. A file names its process, so that a later command can stop the program.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.isolation import Isolation, only_child, spawn
from tests.e2e.testbed.processes import Process, ancestors, command_of, wait_until

TAIL = 25  # lines of a log that a failure shows


class Daemon(NamedTuple):
    """A started program: its name, its process with the pid that it has outside of isolations, and its log."""

    name: str
    process: Process
    log: Path


@dataclass(frozen=True, slots=True)
class Daemons:
    """The programs of one bed. The folder *notes* has a file for each of them, and the folder *logs* a log."""

    notes: Path
    logs: Path

    def start(
        self,
        name: str,
        argv: Sequence[Word],
        inside: Isolation | None = None,
        env: Mapping[str, str] | None = None,
        descriptor: int | None = None,
    ) -> Daemon:
        """Start a program, in an isolation or on the machine itself.

        *descriptor* becomes its file descriptor 3.

        Raises: BedError: the program ended at once, or a program with this name runs already.
        """
        if (there := self.get(name)) and there.process.alive:
            raise BedError(f"{name} runs already, pid {there.process.pid}")
        words = [str(word) for word in argv]
        if env:
            words = ["env", *(f"{key}={value}" for key, value in env.items()), *words]
        log = self.logs / f"{name}.log"
        pid = spawn(inside.command(words) if inside else words, log, descriptor)
        process = only_child(pid, log) if inside else Process.of(pid)
        if process is None:
            raise BedError(f"{name} ended at once; log: {log}\n{tail(log)}")
        daemon = Daemon(name, process, log)
        self.notes.mkdir(parents=True, exist_ok=True)
        (self.notes / f"{name}.json").write_text(json.dumps({"process": asdict(process), "argv": words}))
        return daemon

    def restart(self, name: str, inside: Isolation | None = None) -> Daemon:
        """End a program if it runs, and start it again with the same command line."""
        self.stop(name)
        words = json.loads((self.notes / f"{name}.json").read_text())["argv"]
        return self.start(name, words, inside)

    def get(self, name: str) -> Daemon | None:
        """Return the program called *name*, or None if it was never started. It can have ended since its start."""
        note = self.notes / f"{name}.json"
        if not note.exists():
            return None
        return Daemon(name, Process(**json.loads(note.read_text())["process"]), self.logs / f"{name}.log")

    def all(self) -> list[Daemon]:
        """Return every program that was started, including those that have ended."""
        found = [self.get(note.stem) for note in sorted(self.notes.glob("*.json"))]
        return [daemon for daemon in found if daemon]

    def stop(self, name: str, grace: float = 10.0) -> None:
        """End a program by SIGTERM. If it still runs after *grace* seconds, kill it."""
        if daemon := self.get(name):
            daemon.process.end(grace)

    def wait_for(self, name: str, holds: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until *holds* returns something true while the program *name* runs.

        A BedError of *holds* counts as false. *what* describes the condition in the error.

        Raises: BedError: the program ended, or *seconds* have passed. The error has the end of the log.
        """
        daemon = self.get(name)
        if daemon is None:
            raise BedError(f"{name} was never started")

        def found() -> bool:
            with suppress(BedError):
                return bool(holds())
            return False

        if wait_until(lambda: not daemon.process.alive or found(), seconds) and daemon.process.alive:
            return
        why = f"not ready after {seconds:.0f} s: {what}" if daemon.process.alive else f"ended before: {what}"
        raise BedError(f"{name}: {why}\n{tail(daemon.log)}\n(the whole log: {daemon.log})")


def tail(log: Path) -> str:
    """Return the last `TAIL` lines of a log, or an empty text if there is no log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:]) if log.exists() else ""


def strays(folder: Path) -> list[str]:
    """Return a line for each process whose command line contains *folder*, except this process and its ancestors."""
    own = ancestors(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in own:
            command = command_of(int(entry.name))
            if str(folder) in command:
                found.append(f"{entry.name} {command[:160]}")
    return found
