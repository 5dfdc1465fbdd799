"""What an operator spends, and what others on the machine do meanwhile, from /proc."""

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
    """A running program, which is the first of its session: its children count too, where it has some."""

    program: Program
    ground: Ground

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return Server(self.program.process.pid, 0).cpu_seconds

    @property
    def others_seconds(self) -> float:
        """CPU time so far of all that has nothing to do with the benchmark."""
        programs = (Server(program.process.pid, 0).cpu_seconds for program in self.ground.programs)
        return busy_seconds(Path("/proc/stat").read_text()) - sum(programs) - time.process_time()

    @property
    def rss_mb(self) -> float:
        """Resident memory, 10⁶ bytes."""
        return Server(self.program.process.pid, 0).rss_bytes / 1e6

    @property
    def peak_mb(self) -> float:
        """The most resident memory of its first process so far, 10⁶ bytes."""
        return peak_mb(Path(f"/proc/{self.program.process.pid}/status").read_text())


def busy_seconds(stat: str) -> float:
    """Return the CPU time that a /proc/stat tells of, of all cores together."""
    fields = stat.splitlines()[0].split()[1:]
    return sum(int(fields[number]) for number in _BUSY) / _TICKS


def peak_mb(status: str) -> float:
    """Return VmHWM of a /proc/PID/status, 10⁶ bytes; 0 if there is none."""
    found = _PEAK.search(status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0
