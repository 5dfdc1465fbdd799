"""The facts that are stored with a measurement: the machine, and the versions of the programs."""

import datetime
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dnsbench.errors import BenchError
from dnsbench.servers import Kind

_ASK_SECONDS = 10
_RMEM_MAX = Path("/proc/sys/net/core/rmem_max")
"""The largest receive buffer, in bytes, that a server in a Pod can ask for."""
_VERSION_WORDS = {
    Kind.OURS: ("-m", "tsnameserver", "--version"),
    Kind.GO: (),
    Kind.NSD: ("-v",),
    Kind.KNOT: ("--version",),
}


def cores() -> tuple[int, int]:
    """Return the numbers of two CPU cores: one for the server and one for the client. Raises BenchError."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise BenchError("two cores are needed: one for the server, one for the client")
    return usable[0], usable[-1]


def command_line(words: Sequence[str]) -> str:
    """Return the command line *words* without the folders in its paths, because the results are published."""
    shown = [Path(word).name if Path(word).is_absolute() else word for word in words]
    return shlex.join(["python", "-m", "dnsbench", *shown])


def facts(programs: Mapping[Kind, str], command: str) -> dict[str, object]:
    """Return the facts that go with the results: date, command, machine and versions."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "kernel": platform.release(),
        "rmem_max": int(_RMEM_MAX.read_text()),
        "python": platform.python_version(),
        "versions": {
            str(kind): _version(kind, program) for kind, program in programs.items() if kind in _VERSION_WORDS
        },
    }


def _cpu_model() -> str:
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _version(kind: Kind, program: str) -> str:
    """Return the version of *program*: the first line in which it prints its version.

    For the Go server, return the version of its module. If no version is found, return "unknown".
    """
    command = ["go", "version", "-m", program] if kind is Kind.GO else [program, *_VERSION_WORDS[kind]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    said = done.stdout or done.stderr
    if kind is Kind.GO:
        module = re.search(r"^\s+(?:mod|dep)\s+tailscale\.com\s+(\S+)", said, re.MULTILINE)
        return f"k8s-nameserver {module[1]}" if module else "unknown"
    return next(iter(said.splitlines()), "unknown")
