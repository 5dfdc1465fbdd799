"""The CPU time and memory of an operator, and the CPU time of other programs on the machine, from /proc."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from dnsbench.process import Server

from operatorbench.ground import Ground, Program

_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal: fields of /proc/stat (proc(5))
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Spending:
    """The CPU time and memory of a running program, with its child processes, which are in the same session."""

    program: Program
    ground: Ground

    @property
    def cpu_seconds(self) -> float:
        """The CPU time, user and system, so far."""
        return Server(self.program.process.pid, 0).cpu_seconds

    @property
    def others_seconds(self) -> float:
        """The CPU time so far of all programs on the machine that don't belong to the benchmark."""
        programs = (Server(program.process.pid, 0).cpu_seconds for program in self.ground.programs)
        return busy_seconds(Path("/proc/stat").read_text()) - sum(programs) - time.process_time()

    @property
    def rss_mb(self) -> float:
        """The resident memory, in 10⁶ bytes."""
        return Server(self.program.process.pid, 0).rss_bytes / 1e6

    @property
    def peak_mb(self) -> float:
        """The highest resident memory of the program's first process so far, in 10⁶ bytes."""
        return peak_mb(Path(f"/proc/{self.program.process.pid}/status").read_text())


def busy_seconds(stat: str) -> float:
    """Return the seconds for which cores were busy, all cores together, from the text of /proc/stat."""
    fields = stat.splitlines()[0].split()[1:]
    return sum(int(fields[number]) for number in _BUSY) / _TICKS


def peak_mb(status: str) -> float:
    """Return the highest resident memory so far (VmHWM) from the text of /proc/PID/status, in 10⁶ bytes.

    It is 0 if the text has no such line.
    """
    found = _PEAK.search(status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0
