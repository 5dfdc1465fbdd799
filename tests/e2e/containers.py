"""The processes of containers, seen from this machine."""

from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import Object
from tests.e2e.testbed.processes import Process, command_of


def process_of(pod: Object, program: str) -> Process:
    """Return the process that runs *program* in the first container of *pod*."""
    return process_in(pod, pod["spec"]["containers"][0]["name"], program)


def process_in(pod: Object, container: str, program: str) -> Process:
    """Return the process that runs *program* in the container of *pod* with the name *container*."""
    identifier = status_of(pod, container)["containerID"].removeprefix("containerd://")
    return next(process for process in _in_container(identifier) if program in command_of(process.pid))


def status_of(pod: Object, container: str) -> Object:
    """Return the status of the container of *pod* with the name *container*."""
    statuses: list[Object] = pod["status"]["containerStatuses"]
    return next(each for each in statuses if each["name"] == container)


def _in_container(container: str) -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and container in _cgroup(entry) and (process := Process.of(int(entry.name))):
            yield process


def _cgroup(entry: Path) -> str:
    try:
        return (entry / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
