"""Base images, made by debootstrap and cached.

One image is Debian with the tools of proxies and test Pods. The other, smaller image is for the other architecture.
Only a test that builds images for both architectures needs it.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed import oci
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

SUITE = "bookworm"


@dataclass(frozen=True, slots=True)
class Base:
    """A base image: its name in the cache, its architecture, and its packages beside Debian's smallest set."""

    name: str
    architecture: str
    packages: tuple[str, ...]


_TOOLS = (
    "bind9-dnsutils",
    "ca-certificates",
    "curl",
    "dnsmasq-base",
    "iproute2",
    "iptables",
    "procps",
    "python3",
    "python3-pip",
    "python3-venv",
)
OWN = Base("base", oci.architecture(), _TOOLS)
FOREIGN = Base(
    f"base-{oci.other_architecture()}", oci.other_architecture(), ("ca-certificates", "python3", "python3-pip")
)
"""The base image of the other architecture. Its packages are those that the Dockerfile needs."""

# The files that no container reads: half of the size.
UNNEEDED = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
)


def layout(paths: Paths, base: Base = OWN) -> Path:
    """Return the folder of a base image, which is an OCI layout."""
    seen = hashlib.sha256(repr((SUITE, base.packages, UNNEEDED)).encode()).hexdigest()[:16]
    return paths.cache / f"{base.name}-{seen}"


def build(paths: Paths, progress: Progress, base: Base = OWN) -> None:
    """Build a base image if it doesn't exist. For another architecture, an emulator must run its programs."""
    target = layout(paths, base)
    if target.exists():
        return
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    root, layer = unfinished / "root", unfinished / "layer.tar"
    with progress.step(f"making {base.name} by debootstrap: {SUITE} with {', '.join(base.packages)}"):
        # In a mount namespace of its own, so that no mount of debootstrap remains.
        apart = ["unshare", "--mount", "--propagation", "private"]
        what = [f"--arch={base.architecture}", "--variant=minbase", f"--include={','.join(base.packages)}"]
        run([*apart, "debootstrap", *what, SUITE, root], timeout=1800)
        excluded = [f"--exclude={pattern}" for pattern in UNNEEDED]
        run(["tar", "--sort=name", "--numeric-owner", *excluded, "-C", root, "-cf", layer, "."], timeout=300)
        oci.write_layout(unfinished / "image", [layer], oci.Start(command=["/bin/bash"]), base.architecture)
    (unfinished / "image").rename(target)
    shutil.rmtree(unfinished)
