"""The local image registry, from which the node pulls every image, whatever its name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.daemons import Daemons
from tests.e2e.testbed.isolation import NETNS, Isolation
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths

PORT = 5000
ADDRESS = f"127.0.0.1:{PORT}"  # in the node's network namespace
PAUSE = f"{ADDRESS}/testbed/pause:1"
COREDNS = f"{ADDRESS}/testbed/coredns:1"
BASE = f"{ADDRESS}/testbed/base:1"


def start(paths: Paths, daemons: Daemons, node: Isolation, folder: Path) -> None:
    """Start the registry in the node's network, with its blobs in *folder*."""
    folder.mkdir(parents=True)
    argv: list[Word] = [program(paths, "crane"), "registry", "serve", f"--address=0.0.0.0:{PORT}", f"--disk={folder}"]
    daemons.start("registry", argv, node)
    catalog: list[Word] = [program(paths, "crane"), "catalog", ADDRESS]
    daemons.wait_for("registry", lambda: node.run(catalog, timeout=10) is not None, 20, "its catalog")


def push(paths: Paths, node: Isolation, layout: Path, name: str) -> None:
    """Push the image in an OCI layout as *name*.

    *name* is like `tailscale/tailscale:v1.102.5`, or begins with the registry's own address.
    """
    run([*reach(node), program(paths, "crane"), "push", layout, address_of(name)], timeout=120)


def copy(paths: Paths, node: Isolation, name: str, other: str) -> None:
    """Add the name *other* to the image *name* in the registry."""
    run([*reach(node), program(paths, "crane"), "copy", address_of(name), address_of(other)], timeout=120)


def read(paths: Paths, node: Isolation, folder: Path, name: str) -> tuple[dict[str, Any], list[Path]]:
    """Return the configuration and the layer files of the pushed image *name*. The registry's blobs are in *folder*."""
    manifest = json.loads(run([*reach(node), program(paths, "crane"), "manifest", address_of(name)], timeout=60))

    def blob(of: Mapping[str, str]) -> Path:
        return folder / of["digest"].replace(":", "/")

    return json.loads(blob(manifest["config"]).read_text()), [blob(layer) for layer in manifest["layers"]]


def reach(node: Isolation) -> list[str]:
    """Return the first words of a command that is to run in the node's network, where the registry is."""
    return ["nsenter", f"--net={NETNS / node.name}", "--"]


def address_of(name: str) -> str:
    """Return the name in our registry for the image *name*.

    If the first part of *name* contains a dot or a colon, it is the address of another registry, and ours replaces it.
    """
    first, _, rest = name.partition("/")
    return f"{ADDRESS}/{rest if '.' in first or ':' in first else name}"
