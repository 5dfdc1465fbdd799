"""Measurements with dnsperf, to check those with our client. dnsperf uses much CPU, so it suits only slow servers."""

import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dnsload.client import Load, Seen
from dnsload.tally import Tally

from dnsbench.errors import BenchError

_SPARE_SECONDS = 10
_COUNTS = {
    "sent": r"Queries sent: +(\d+)",
    "completed": r"Queries completed: +(\d+)",
    "lost": r"Queries lost: +(\d+)",
    "seconds": r"Run time \(s\): +([\d.]+)",
}


@dataclass(frozen=True, slots=True)
class Dnsperf:
    """The installed program dnsperf, and the number of its CPU core."""

    program: str
    core: int

    @classmethod
    def find(cls, core: int) -> "Dnsperf | None":
        """Return dnsperf if it is installed, and None otherwise."""
        program = shutil.which("dnsperf")
        return cls(program, core) if program else None

    def run(self, names: Path, port: int, load: Load) -> Seen:
        """Send the queries in the file *names* as fast as the server answers, and return the results.

        Raises BenchError.
        """
        where = ["-s", "127.0.0.1", "-p", str(port), "-d", str(names)]
        how = ["-l", str(load.seconds), "-q", str(load.outstanding), "-c", "1", "-T", "1", "-t", "1"]
        command = ["taskset", "-c", str(self.core), self.program, *where, *how]
        before = _children_seconds()
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=load.seconds + _SPARE_SECONDS, check=False
        )
        return parse(done.stdout or done.stderr, _children_seconds() - before)


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def parse(said: str, cpu_seconds: float) -> Seen:
    """Return the results in *said*, the output of dnsperf, which has neither percentiles nor stalls. Raises BenchError.

    *cpu_seconds* is the CPU time that dnsperf used.
    """
    found = {name: re.search(pattern, said) for name, pattern in _COUNTS.items()}
    counts = {name: float(match[1]) for name, match in found.items() if match}
    if counts.keys() != _COUNTS.keys():
        raise BenchError(f"dnsperf's output isn't understood: {said[-500:]}")
    right = sum(_of_code(code, said) for code in ("NOERROR", "NXDOMAIN"))
    completed = int(counts["completed"])
    tally = Tally(sent=int(counts["sent"]), right=right, wrong=completed - right, lost=int(counts["lost"]))
    idle = max(0.0, counts["seconds"] - cpu_seconds)
    return Seen(True, counts["seconds"], counts["seconds"], cpu_seconds, idle, tally=tally)


def _of_code(code: str, said: str) -> int:
    found = re.search(rf"{code} (\d+)", said)
    return int(found[1]) if found else 0
