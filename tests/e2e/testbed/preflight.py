"""What the machine must have: checked first, so that a lack is one clear line and not a strange failure later."""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError

GO = (1, 26)


def check_builds() -> None:
    """See that parts can be built here.

    Raises:
        BedError: Go is missing or too old.
    """
    if shutil.which("go") is None:
        raise BedError(f"Go {GO[0]}.{GO[1]} or newer is needed, and there is no go on the PATH: https://go.dev/dl/")
    version = run(["go", "env", "GOVERSION"]).strip()
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < GO:
        raise BedError(f"Go {GO[0]}.{GO[1]} or newer is needed, this is {version}: https://go.dev/dl/")


def check_cluster() -> None:
    """See that a whole cluster can run here.

    Raises:
        BedError: the first thing that is missing, and what to do about it.
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
        (os.access("/sys/fs/cgroup", os.W_OK), "/sys/fs/cgroup isn't writable: containers can't be made here"),
    )
    for holds, otherwise in wanted:
        if not holds:
            raise BedError(otherwise)
