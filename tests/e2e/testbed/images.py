"""Images of the bed: made from built programs, the base image, or a Dockerfile, and pushed to the local registry."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.testbed import oci, registry, rootfs
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths

Files = Mapping[str, Path]
"""The files that an image adds to its base: a map from the path in the image to the file on this machine."""


@dataclass(frozen=True, slots=True)
class Images:
    """Builds images in its own work folder, and pushes them to the registry in *node*."""

    paths: Paths
    node: Isolation
    folder: Path

    def push_standard(self) -> None:
        """Push the images that the cluster itself needs, and the base image."""
        for name, image in (("pause", registry.PAUSE), ("coredns", registry.COREDNS)):
            files = {f"/{name}": program(self.paths, name)}
            self.push_files(image, files, oci.Start(entrypoint=[f"/{name}"]), base=False)
        registry.push(self.paths, self.node, rootfs.layout(self.paths), registry.BASE)

    def push_files(self, name: str, files: Files, start: oci.Start, base: bool = True) -> None:
        """Push an image *name* with *files* and, if *base*, with those of the base image below them.

        *start* is the command and the environment of its containers.
        """
        with self._scratch(name) as scratch:
            layer = scratch / "layer.tar"
            oci.write_layer(layer, files)
            below = oci.layers_of(rootfs.layout(self.paths)) if base else []
            oci.write_layout(scratch / "image", [*below, layer], start)
            registry.push(self.paths, self.node, scratch / "image", name)

    def push_dockerfile(self, name: str, context: Path, target: str, arguments: Mapping[str, str]) -> None:
        """Build one *target* of a context's Dockerfile by buildah, and push it as *name*.

        If an image of that name was built before, push that image without a build. So the name has to change with the
        content. *arguments* are build arguments. An argument that names the base image has the value `registry.BASE`.
        Images and layers are stored beside the parts. Build steps use the machine's network.
        """
        to = registry.address_of(name)
        try:
            self._push_built(to)
        except BedError:  # it was never built
            self._provide_base()
            given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
            build = ["build", "--layers", "--format=oci", "--pull-never", f"--target={target}", *given]
            self._buildah(*build, f"--tag={to}", str(context), timeout=900)
            self._push_built(to)

    def _push_built(self, address: str) -> None:
        push = ["push", "--tls-verify=false", "--disable-compression", address]
        self._buildah(*push, timeout=300, before=registry.reach(self.node))

    def _provide_base(self) -> None:
        """Import the present base image into buildah's own storage, unless it is there already."""
        layout = rootfs.layout(self.paths)
        mark = self._storage / "base"
        if mark.exists() and mark.read_text() == layout.name:
            return
        self._buildah("pull", "--tls-verify=false", registry.BASE, timeout=300, before=registry.reach(self.node))
        mark.write_text(layout.name)

    @property
    def storage(self) -> tuple[Path, Path]:
        """The two folders of buildah's storage: one for images and layers, which stays, and one for its state."""
        return self._storage / "storage", self.folder / "buildah"

    @property
    def _storage(self) -> Path:
        return self.paths.cache / "buildah"

    def _buildah(self, *words: str, timeout: float, before: Sequence[str] = ()) -> str:
        """Run buildah in a mount namespace of its own, so that all its mounts end with it.

        The command line begins with *before*, such as the words that `registry.reach` returns.
        """
        self._storage.mkdir(parents=True, exist_ok=True)
        graph, state = self.storage
        folders = [f"--root={graph}", f"--runroot={state}"]
        environment = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot"}
        apart = ["unshare", "--mount", "--propagation", "private"]
        return run([*before, *apart, "buildah", *folders, *words], timeout=timeout, env=environment)

    @contextmanager
    def _scratch(self, name: str) -> Iterator[Path]:
        folder = self.folder / name.replace("/", "_").replace(":", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
