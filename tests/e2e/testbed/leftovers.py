"""Compares the machine before a bed and after it, to find leftovers."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.daemons import strays
from tests.e2e.testbed.isolation import NETNS
from tests.e2e.testbed.processes import wait_until

CGROUPS = Path("/sys/fs/cgroup")
OURS = "kubepods"  # the cgroup of all Pods, made by the kubelet
OURS_ON = f"{OURS}-%s"  # the cgroup in which the kubelet of a further node makes its cgroups
# The sysctls that a kubelet sets for the whole machine. `down` restores them.
SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the machine at one moment."""

    namespaces: list[str]
    mounts: list[str]
    links: list[str]
    iptables: list[str]
    cgroups: list[str]
    processes: list[str]
    resolv_conf: str
    sysctls: dict[str, str]

    @classmethod
    def take(cls, folder: Path) -> "Snapshot":
        """Return the present state of the machine.

        It includes the processes that have *folder* in their command lines.
        """
        return cls(
            namespaces=sorted(entry.name for entry in NETNS.iterdir()) if NETNS.exists() else [],
            mounts=sorted(Path("/proc/self/mounts").read_text().splitlines()),
            links=sorted(link.name for link in Path("/sys/class/net").iterdir()),
            iptables=_iptables(),
            cgroups=sorted(str(folder) for folder in pod_cgroups()),
            processes=strays(folder),
            resolv_conf=Path("/etc/resolv.conf").read_text() if Path("/etc/resolv.conf").exists() else "",
            sysctls={name: (Path("/proc/sys") / name).read_text().strip() for name in SYSCTLS},
        )

    @classmethod
    def load(cls, file: Path) -> "Snapshot | None":
        """Return the snapshot that was saved in *file*, or None if there is no such file."""
        return cls(**json.loads(file.read_text())) if file.exists() else None

    def save(self, file: Path) -> None:
        """Write the snapshot to *file*."""
        file.write_text(json.dumps(asdict(self), indent=1))


def leftovers(before: Snapshot, folder: Path) -> list[str]:
    """Return a line for each difference between *before* and now: things that are new, and things that are missing."""
    then, now = asdict(before), asdict(Snapshot.take(folder))
    found: list[str] = []
    for what in then:
        old, new = _lines(then[what]), _lines(now[what])
        found += [f"{what}: new: {line}" for line in new if line not in old]
        found += [f"{what}: gone: {line}" for line in old if line not in new]
    return found


def _lines(value: "list[str] | dict[str, str] | str") -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, dict):
        return [f"{key} = {number}" for key, number in value.items()]
    return value


def _iptables() -> list[str]:
    """Return the iptables rules of the machine's own network, without counters and dates."""
    if shutil.which("iptables-save") is None:
        return []
    lines = run(["iptables-save"]).splitlines()
    return [re.sub(r" \[\d+:\d+\]$", "", line) for line in lines if not line.startswith("#")]


def pod_cgroups(cgroups: Path = CGROUPS) -> list[Path]:
    """Return the cgroups of Pods: one for each hierarchy and node."""
    if not cgroups.exists():
        return []
    candidates: Iterable[Path] = (cgroups, *(entry for entry in cgroups.iterdir() if entry.is_dir()))
    return [found for folder in candidates for name in (OURS, OURS_ON % "*") for found in folder.glob(name)]


def make_cgroups(node: str, cgroups: Path = CGROUPS) -> str:
    """Make a cgroup for the Pods of a further *node* in each hierarchy, and return its path in a hierarchy."""
    unified = (cgroups / "cgroup.procs").exists()
    for hierarchy in [cgroups] if unified else [folder.parent for folder in cgroups.glob("*/cgroup.procs")]:
        (hierarchy / (OURS_ON % node)).mkdir(exist_ok=True)
    return f"/{OURS_ON % node}"


def pods_run(cgroups: Path = CGROUPS) -> bool:
    """Tell whether any process is in a Pod's cgroup."""
    procs = (Path(folder) / "cgroup.procs" for top in pod_cgroups(cgroups) for folder, _, _ in os.walk(top))
    return any(file.exists() and file.read_text() for file in procs)


def remove_cgroups() -> bool:
    """Remove the cgroups of Pods, and tell whether they are gone.

    The kernel refuses to remove a cgroup with processes, so this function tries again for five seconds.
    """
    return wait_until(_tried_to_remove_cgroups, 5)


def _tried_to_remove_cgroups() -> bool:
    for top in pod_cgroups():
        folders = [Path(folder) for folder, _, _ in os.walk(top)]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):  # busy, or gone already, because the same hierarchy may be mounted twice
                folder.rmdir()
    return not pod_cgroups()


def restore_sysctls(before: Snapshot) -> None:
    """Give the sysctls in `SYSCTLS` the values that they have in *before*."""
    for name, value in before.sysctls.items():
        file = Path("/proc/sys") / name
        if file.read_text().strip() != value:
            file.write_text(value)
