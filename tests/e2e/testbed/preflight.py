"""Checks the machine before a bed starts, so that a missing requirement causes a clear message at once."""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.leftovers import CGROUPS, OURS, pods_run

GO = (1, 26)


def check_builds() -> None:
    """Check that parts can be built here.

    Raises: BedError: Go is missing or too old.
    """
    if shutil.which("go") is None:
        raise BedError(f"Go {GO[0]}.{GO[1]} or newer is needed, and there is no go on the PATH: https://go.dev/dl/")
    version = run(["go", "env", "GOVERSION"]).strip()
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < GO:
        raise BedError(f"Go {GO[0]}.{GO[1]} or newer is needed, this is {version}: https://go.dev/dl/")


def check_cluster(work: Path, cgroups: Path = CGROUPS) -> None:
    """Check that a whole cluster can run here, with its files in *work*.

    Raises: BedError: the first requirement that is missing, and what to do about it.
    """
    wanted = (
        (sys.platform == "linux", "the testbed needs Linux"),
        (os.geteuid() == 0, "the testbed needs root: it makes namespaces and runs containers"),
        (
            Path("/dev/net/tun").is_char_device(),
            "there is no /dev/net/tun, which tailscaled needs: modprobe tun, or give the device to this container",
        ),
        (
            Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists(),
            "bridged packets don't pass iptables, which Services need: modprobe br_netfilter",
        ),
        (
            "\toverlay\n" in Path("/proc/filesystems").read_text(),
            "the kernel has no overlay file system: modprobe overlay",
        ),
        (
            not _is_on_overlay(work),
            f"{work} is on an overlay file system, which can't carry another: name a folder elsewhere by TESTBED_WORK",
        ),
        (os.access(cgroups, os.W_OK), f"{cgroups} isn't writable: containers can't be made here"),
        (
            not pods_run(cgroups),
            f"another kubelet runs on this machine: Pods are in the cgroup {OURS}. Stop it, or take down the testbed "
            "that it belongs to: two kubelets would end each other's Pods",
        ),
    )
    for holds, otherwise in wanted:
        if not holds:
            raise BedError(otherwise)


def _is_on_overlay(folder: Path) -> bool:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return run(["stat", "--file-system", "--format=%T", there]).strip() == "overlayfs"
