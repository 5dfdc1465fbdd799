"""A machine within the machine, with its own network, mounts and processes, which all end with its first process.

Programs in an isolation leave nothing behind: no containers, no volumes of the kubelet, and no files in /var/lib. When
the first process of a PID namespace ends, the kernel kills all others. Mounts end with the mount namespace, and system
folders are overlays that write into the work folder. The network namespace has a name, by which `nsenter
--net=/run/netns/NAME` joins it.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.processes import Process, children, wait_until

NETNS = Path("/run/netns")
# The system folders to which programs write.
PRIVATE = ("/etc", "/opt", "/usr/libexec", "/var/lib", "/var/log")

# volatile: the end of an isolation doesn't wait for the disk, because no file has to outlive the isolation.
# SIGCHLD is ignored so that the kernel reaps what containerd's shims leave to the first process.
_FIRST_PROCESS = """
set -e
folder=$1; shift
mount --make-rshared /
for system in "$@"; do
    [ -d "$system" ] || continue
    own=$folder$system
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay overlay -o "lowerdir=$system,upperdir=$own/upper,workdir=$own/work,volatile" "$system"
done
mount -t tmpfs -o mode=755 tmpfs /run
ip link set lo up
touch "$folder/ready"
trap '' CHLD
exec sleep infinity
"""


@dataclass(frozen=True, slots=True)
class Isolation:
    """A machine within the machine: its name, its first process, and the folder of its files.

    The pid of *first* is the one that processes outside see.
    """

    name: str
    first: Process
    folder: Path

    @classmethod
    def make(cls, name: str, folder: Path) -> "Isolation":
        """Start an isolation, and name its network namespace *name*.

        Raises: BedError: the name is in use, or the kernel refuses.
        """
        handle = NETNS / name
        if handle.exists():
            raise BedError(f"the network namespace {handle} is there already: run `down`, or remove it by hand")
        folder.mkdir(parents=True)
        script = folder / "first-process.sh"
        script.write_text(_FIRST_PROCESS)
        isolation = cls(name, _unshare(script, folder), folder)
        isolation.save()
        if not wait_until(lambda: (folder / "ready").exists() or not isolation.first.alive, 20) or not isolation.alive:
            raise BedError(f"no namespaces for {name}: {(folder / 'log').read_text().strip()}")
        NETNS.mkdir(exist_ok=True)
        handle.touch()
        run(["mount", "--bind", f"/proc/{isolation.first.pid}/ns/net", handle])
        return isolation

    @classmethod
    def load(cls, folder: Path) -> "Isolation | None":
        """Return the isolation that was made in *folder*, or None if none was made there."""
        file = folder / "isolation.json"
        if not file.exists():
            return None
        saved = json.loads(file.read_text())
        return cls(saved["name"], Process(**saved["first"]), folder)

    def save(self) -> None:
        """Write the file that `load` reads."""
        (self.folder / "isolation.json").write_text(json.dumps({"name": self.name, "first": asdict(self.first)}))

    @property
    def alive(self) -> bool:
        """Tell whether the isolation's first process runs."""
        return self.first.alive

    def command(self, argv: Sequence[Word]) -> list[str]:
        """Return the command that runs *argv* inside the isolation."""
        inside = ["nsenter", f"--target={self.first.pid}", "--net", "--mount", "--pid", "--"]
        return [*inside, *(str(word) for word in argv)]

    def run(self, argv: Sequence[Word], timeout: float = 60, stdin: str | None = None) -> str:
        """Run *argv* inside the isolation to its end; see `commands.run`."""
        return run(self.command(argv), timeout=timeout, stdin=stdin)

    def remove(self) -> None:
        """End all processes inside the isolation, and remove the name of its network namespace."""
        self.first.end(grace=0)
        remove_name(NETNS / self.name)


def remove_name(handle: Path) -> None:
    """Remove *handle*, the name of a network namespace. Also remove the folder of the names if no name is left."""
    if not handle.exists():
        return
    while f" {handle} nsfs " in Path("/proc/self/mounts").read_text():
        run(["umount", handle])
    handle.unlink()
    with suppress(OSError):  # the folder has other names, or `ip netns` has made it a mount
        handle.parent.rmdir()


def _unshare(script: Path, folder: Path) -> Process:
    """Start the first process of an isolation, and return it with the pid that it has outside."""
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
    pid = spawn([*apart, "sh", str(script), str(folder), *PRIVATE], folder / "log")
    return only_child(pid, folder / "log")


def spawn(argv: Sequence[str], log: Path, descriptor: int | None = None) -> int:
    """Start *argv* in a session of its own, with its output added to *log*, and return its pid.

    The file *descriptor*, if given, becomes the program's file descriptor 3.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    if descriptor is not None:
        actions.append((os.POSIX_SPAWN_DUP2, descriptor, 3))
    return os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions, setsid=True)


def only_child(pid: int, log: Path) -> Process:
    """Return the only child of a program that forks and waits, such as unshare or nsenter.

    Raises: BedError: the program ended before it had a child.
    """
    found: list[int] = []

    def forked() -> bool:
        found[:] = children(pid)
        return bool(found) or Process.of(pid) is None

    wait_until(forked, 10)
    child = Process.of(found[0]) if found else None
    if child is None:
        said = log.read_text()[-2000:].strip() if log.exists() else ""
        raise BedError(f"did not start: {said or 'no output'}; log: {log}")
    return child
