"""The load: a small C program, compiled when it is needed, that is driven by Load and says what it saw as Answers."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from dnsbench.errors import BenchError

SOURCE = Path(__file__).with_name("client.c")
_COMPILE_SECONDS = 60
_SPARE_SECONDS = 10
"""What a run may take past its time."""


@dataclass(frozen=True, slots=True)
class Load:
    """How queries are sent; UDP unless there are connections."""

    seconds: float
    rate: int = 0
    """Queries a second, sent whatever the answers do; 0 is as many as are answered."""
    outstanding: int = 100
    """Queries under way at any time where there is no rate."""
    connections: int = 0
    """TCP connections at a time."""
    every: float = 0
    """Seconds between reports; 0 is one at the end."""


class Answers(BaseModel):
    """What the client saw, as it prints it."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    sent: int
    junk: int
    hits: int
    misses: int
    wrong: int
    lost: int
    """Not answered within a second."""
    stray: int
    """Answers that nobody waited for, any more or at all."""
    resets: int
    """Connections that the server ended early."""
    dropped: int
    """Answers that the client's own socket had no room for: they are among the lost, but not by the server."""
    cpu_seconds: float
    idle_seconds: float
    """How long the client found nothing to do: what it had in reserve."""
    gap_ns: int
    """The longest time without an answer."""
    own_gap_ns: int
    """The longest time that the client itself didn't run: what it can't tell apart from a slow server."""
    histogram: list[tuple[int, int]] = []

    @property
    def answered(self) -> int:
        """Queries that were answered, rightly or wrongly."""
        return self.hits + self.misses + self.wrong


def compile_client(folder: Path, source: Path = SOURCE) -> Path:
    """Compile the client, *source*, into *folder*; raises BenchError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("there is no C compiler: apt-get install gcc libc6-dev")
    program = folder / "client"
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)]
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603 - our own words
        command, env=environment, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no error was named"]
        raise BenchError(f"{source.name} doesn't compile (apt-get install gcc libc6-dev): {lines[0]}")
    return program


@dataclass(frozen=True, slots=True)
class Client:
    """The compiled client and the core it runs on."""

    program: Path
    core: int
    tick_seconds: float = 1.0
    """How often `run` calls its *tick*."""

    def run(self, queries: Path, port: int, load: Load, tick: Callable[[Path], None] | None = None) -> Answers:
        """Send *queries* to *port*; *tick* is called now and then with the file of reports; raises BenchError."""
        numbers = (port, load.seconds, load.outstanding, load.rate, load.connections, load.every)
        command = ["taskset", "-c", str(self.core), str(self.program), str(queries), *map(str, numbers)]
        reports = queries.with_suffix(".reports")
        with reports.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE) as process:  # noqa: S603 - our own words
            try:
                _follow(process, load.seconds + _SPARE_SECONDS, self.tick_seconds, lambda: tick and tick(reports))
            finally:
                process.kill()
            said = process.stderr.read().decode().strip() if process.stderr else ""
        answers = read_reports(reports)
        if process.returncode or not answers:
            raise BenchError(f"the client failed with code {process.returncode}: {said}")
        return answers[-1]


def read_reports(path: Path) -> list[Answers]:
    """Return the reports that are whole."""
    lines = path.read_bytes().splitlines(keepends=True)
    return [Answers.model_validate_json(line) for line in lines if line.endswith(b"\n")]


def _follow(process: "subprocess.Popen[bytes]", seconds: float, every: float, tick: Callable[[], object]) -> None:
    """Wait for *process*, and call *tick* *every* so many seconds; raises BenchError."""
    begun = time.monotonic()
    for number in range(1, int(seconds / every) + 1):
        try:
            process.wait(max(0.0, begun + number * every - time.monotonic()))
        except subprocess.TimeoutExpired:
            tick()
        else:
            return
    raise BenchError(f"the client didn't end within {seconds:.0f} s")
