"""Runs the compiled client of dnsload, on another core than the server."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dnsload.client import Load, Seen

from dnsbench.errors import BenchError

_SPARE_SECONDS = 10
"""The seconds after the end of the load in which a run has to end, or else it has failed."""


@dataclass(frozen=True, slots=True)
class Client:
    """The compiled client, and the number of its CPU core."""

    program: Path
    core: int
    tick_seconds: float = 1.0
    """The number of seconds between two calls of *tick* by `run`."""

    def run(self, queries: Path, port: int, load: Load, tick: Callable[[Path], None] | None = None) -> Seen:
        """Send the queries in the file *queries* to *port*, and return the results; raises BenchError.

        Meanwhile, call *tick* every `tick_seconds` with the path of the file into which the client writes its reports.
        """
        command = ["taskset", "-c", str(self.core), str(self.program), *load.words("127.0.0.1", port)]
        reports = queries.with_suffix(".reports")
        with (
            queries.open("rb") as asked,
            reports.open("wb") as output,
            subprocess.Popen(command, stdin=asked, stdout=output, stderr=subprocess.PIPE) as process,  # noqa: S603 - our own words
        ):
            try:
                _follow(process, load.seconds + _SPARE_SECONDS, self.tick_seconds, lambda: tick and tick(reports))
            finally:
                process.kill()
            said = process.stderr.read().decode().strip() if process.stderr else ""
        seen = read_reports(reports)
        if process.returncode or not seen.last:
            raise BenchError(f"the client failed with code {process.returncode}: {said}")
        return seen


def read_reports(path: Path) -> Seen:
    """Return the sum of all reports in the file at *path*, a report a line. Ignore an incomplete last line."""
    seen = Seen()
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            seen.add(Seen.parse(line))
    return seen


def _follow(process: "subprocess.Popen[bytes]", seconds: float, every: float, tick: Callable[[], object]) -> None:
    """Wait up to *seconds* for *process*, and call *tick* at intervals of *every* seconds; raises BenchError."""
    begun = time.monotonic()
    for number in range(1, int(seconds / every) + 1):
        try:
            process.wait(max(0.0, begun + number * every - time.monotonic()))
        except subprocess.TimeoutExpired:
            tick()
        else:
            return
    raise BenchError(f"the client didn't end within {seconds:.0f} s")
