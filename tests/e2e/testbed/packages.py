"""The Debian packages that the testbed needs. apt installs the missing ones."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.progress import Progress

# The name of each package, and a program or a path that exists only if the package is installed.
PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "debootstrap": "debootstrap",
    "dnsmasq-base": "dnsmasq",
    "bind9-dnsutils": "dig",
    "ethtool": "ethtool",
    "iproute2": "ip",
    "iptables": "iptables",
    "openssl": "openssl",
    "runc": "runc",
    "socat": "socat",
}
# The nameservers that `make bench` compares ours with; it starts them itself.
PEERS = {"knot": "knotd", "nsd": "nsd"}

# The emulator of other architectures.
EMULATOR = {"qemu-user-static": "qemu-aarch64-static"}


def missing(packages: Mapping[str, str]) -> list[str]:
    """Return those of *packages* that aren't installed."""
    return [name for name, brings in packages.items() if shutil.which(brings) is None]  # which() takes paths, too


def install_peers(progress: Progress) -> None:
    """Install the packages in `PEERS`, and stop the services that Debian starts for them.

    Raises: BedError: apt is missing or fails.
    """
    names = missing(PEERS)
    install(progress, PEERS)
    if names and Path("/run/systemd/system").exists():
        run(["systemctl", "disable", "--now", "--quiet", *names])


def install(progress: Progress, packages: Mapping[str, str] = PACKAGES) -> None:
    """Install those of *packages* that are missing, and print their names.

    Raises: BedError: apt is missing or fails.
    """
    names = missing(packages)
    if not names:
        return
    if shutil.which("apt-get") is None:
        raise BedError(f"install these packages first (Debian's names; there is no apt-get here): {' '.join(names)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with progress.step(f"installing Debian packages: {' '.join(names)}"):
        run(["apt-get", "update", "-qq"], timeout=300, env=quiet)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names], timeout=900, env=quiet)
    still = missing(packages)
    if still:
        raise BedError(f"apt-get installed these, but they don't bring what is needed: {' '.join(still)}")
