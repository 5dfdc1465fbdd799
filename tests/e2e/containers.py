"""The processes of containers, seen from this machine."""

from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import Object
from tests.e2e.testbed.processes import Process, command_of


def process_of(pod: Object, program: str) -> Process:
    """Return the process that runs *program* in the first container of *pod*."""
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    return next(process for process in _in_container(container) if program in command_of(process.pid))


def _in_container(container: str) -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and container in _cgroup(entry) and (process := Process.of(int(entry.name))):
            yield process


def _cgroup(entry: Path) -> str:
    try:
        return (entry / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
