"""The base image: a small Debian with the tools that proxies and test Pods use, made by debootstrap and cached."""

import hashlib
import shutil
from pathlib import Path

from tests.e2e.testbed import oci
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

SUITE = "bookworm"
PACKAGES = (
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
# What a container doesn't read: half of the size.
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


def layout(paths: Paths) -> Path:
    """Return the folder of the base image, which is an OCI layout."""
    seen = hashlib.sha256(repr((SUITE, PACKAGES, UNNEEDED)).encode()).hexdigest()[:16]
    return paths.cache / f"base-{seen}"


def build(paths: Paths, progress: Progress) -> None:
    """Build the base image if it doesn't exist."""
    target = layout(paths)
    if target.exists():
        return
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    root, layer = unfinished / "root", unfinished / "layer.tar"
    with progress.step(f"making the base image by debootstrap: {SUITE} with {', '.join(PACKAGES)}"):
        # In a mount namespace of its own: what debootstrap mounts can't stay behind.
        apart = ["unshare", "--mount", "--propagation", "private"]
        run(
            [*apart, "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root],
            timeout=1800,
        )
        excluded = [f"--exclude={pattern}" for pattern in UNNEEDED]
        run(["tar", "--sort=name", "--numeric-owner", *excluded, "-C", root, "-cf", layer, "."], timeout=300)
        oci.write_layout(unfinished / "image", [layer], oci.Start(command=["/bin/bash"]))
    (unfinished / "image").rename(target)
    shutil.rmtree(unfinished)
