"""The Debian packages that the testbed needs, installed by apt where they are missing."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.progress import Progress


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package, known to be there by one path that it brings."""

    name: str
    brings: str


PACKAGES = (
    Package("buildah", "buildah"),
    Package("conntrack", "conntrack"),
    Package("containernetworking-plugins", "/usr/lib/cni/bridge"),
    Package("debootstrap", "debootstrap"),
    Package("dnsmasq-base", "dnsmasq"),
    Package("bind9-dnsutils", "dig"),
    Package("ethtool", "ethtool"),
    Package("iproute2", "ip"),
    Package("iptables", "iptables"),
    Package("openssl", "openssl"),
    Package("runc", "runc"),
    Package("socat", "socat"),
)

# The nameservers that `make bench` compares ours with; it starts them itself.
PEERS = (
    Package("knot", "knotd"),
    Package("nsd", "nsd"),
)


def missing(packages: Iterable[Package]) -> list[str]:
    """Name the *packages* that aren't installed."""
    return [package.name for package in packages if not _there(package.brings)]


def install_peers(progress: Progress) -> None:
    """Install PEERS, and stop the services that Debian makes of them where it does.

    Raises:
        BedError: apt isn't there or fails.
    """
    names = missing(PEERS)
    install(progress, PEERS)
    if names and Path("/run/systemd/system").exists():
        run(["systemctl", "disable", "--now", "--quiet", *names])


def _there(brings: str) -> bool:
    return Path(brings).exists() if brings.startswith("/") else shutil.which(brings) is not None


def install(progress: Progress, packages: Sequence[Package] = PACKAGES) -> None:
    """Install those of *packages* that are missing, and say which that is.

    Raises:
        BedError: apt isn't there or fails.
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
