"""A release on this machine: a registry on loopback, and a folder in which the release program builds images."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from release import chart, oci
from release.__main__ import current_build
from release.chart import Chart
from release.images import Place
from tsnameserver import __version__

from tests.e2e import product
from tests.e2e.testbed.build import build
from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.parts import named, program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress
from tests.e2e.waiting import eventually

WHERE = {"PYTHONPATH": ".ci"}  # the release program isn't installed
IMAGES = ("tsoperator", "tsnameserver")
CHART = "charts/tailscale-operator"
NAMES = (*IMAGES, CHART)
"""The names of the artifacts that a release pushes."""


@contextmanager
def served(paths: Paths, folder: Path) -> Iterator[str]:
    """Serve an empty registry on loopback during the block. Its blobs are in *folder*, which is deleted afterwards."""
    build(paths, Progress(), [named("crane"), named("helm")])
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words: list[Word] = [program(paths, "crane"), "registry", "serve", f"--address={address}", f"--disk={folder}"]
    serving = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: run([program(paths, "crane"), "catalog", address]) is not None, "the registry serves", 20)
        yield address
    finally:
        serving.kill()
        serving.wait()
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder in which releases are built on the image *base*.

    *storage* is where buildah keeps images and its state.
    """

    paths: Paths
    folder: Path
    base: str
    storage: tuple[Path, Path]

    def build(self, *words: Word, timeout: float = 600) -> None:
        """Run the release program with *words*."""
        command: list[Word] = [sys.executable, "-m", "release", "--plain-http", "--base", self.base]
        command += ["--context", self.folder / "context", "--tag", f"v{__version__}"]
        self.run(*command, *words, timeout=timeout)

    def push(self, place: str, platforms: str, timeout: float = 600) -> Path:
        """Push a release for *platforms* to *place* in a registry. Return the file with the digests."""
        digests = self.folder / "digests.json"
        words: list[Word] = ["--registry", place, "--platforms", platforms, "--digests", digests]
        for name in ("crane", "helm"):
            words += [f"--{name}", program(self.paths, name)]
        self.build(*words, timeout=timeout)
        return digests

    def run(self, *words: Word, timeout: float = 600) -> str:
        """Run a program with the workshop's storage as that of buildah, and return its output."""
        file = self.folder / "storage.conf"
        graph, state = self.storage
        file.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{graph}"\nrunroot = "{state}"\n')
        environment = {"CONTAINERS_STORAGE_CONF": str(file), "BUILDAH_ISOLATION": "chroot", **WHERE}
        apart = ["unshare", "--mount", "--propagation", "private"]
        return run([*apart, *words], timeout=timeout, env=environment, cwd=product.TREE)


def push_chart(paths: Paths, place: str, folder: Path) -> None:
    """Push the chart of a release to *place* in a registry on loopback, without images."""
    crane, helm = (program(paths, name) for name in ("crane", "helm"))
    started, _ = current_build(product.TREE)
    chart.release(Chart(product.CHART, helm), __version__, {}, Place(place, crane, plain_http=True), started, folder)


@contextmanager
def workshop(paths: Paths, registry: str, folder: Path, bases: Mapping[str, Path]) -> Iterator[Workshop]:
    """Yield a workshop in *folder*, and delete *folder* at the end.

    *bases* are the layouts of the workshop's base image, one for each platform.
    """
    oci.write_index(folder / "base", bases)
    Place(registry, program(paths, "crane"), plain_http=True).push(folder / "base", "base:1", index=True)
    shutil.rmtree(folder / "base")
    shutil.copytree(product.context(paths), folder / "context")
    yield Workshop(paths, folder, f"{registry}/base:1", (folder / "images", folder / "run"))
    shutil.rmtree(folder)  # the folder has buildah's images, which are large
