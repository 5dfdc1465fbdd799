"""A release for amd64 and arm64: each image name is for both, and the programs of both start.

QEMU runs the programs of the other architecture. These tests need no bed.
"""

import json
import os
import signal
import socket
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tsnameserver import __version__

from tests.e2e import product, releasing
from tests.e2e.cluster import Answer, parse_dig
from tests.e2e.testbed import rootfs
from tests.e2e.testbed.build import build_foreign_base
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.emulation import emulated
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.full(share=5)

PLATFORMS = {"linux/amd64": 0x3E, "linux/arm64": 0xB7}
"""The platforms, each with the machine number in the header of its ELF files."""
RECORDS = {"version": "v1alpha1", "ip4": {"db.tail1234.ts.net": ["192.0.2.7"]}}
LIMIT = 3000  # seconds; on an idle machine it takes three minutes


class Unpacked(NamedTuple):
    """The files of an image on this machine, and the configuration with which its containers start."""

    root: Path
    config: dict[str, Any]

    def command(self, *words: str) -> list[str]:
        """Return the command that runs the image's program as a container does: with the image's user and files."""
        apart = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
        inside = ["chroot", f"--userspec={self.config['User']}", str(self.root), "env", "-i", *self.config["Env"]]
        return [*apart, *inside, *self.config["Entrypoint"], *words]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with a release for both platforms."""
    paths, work = Paths.from_environment(), tmp_path_factory.mktemp("release")
    with releasing.served(paths, tmp_path_factory.mktemp("registry")) as address, emulated(Progress()):
        bases = {f"linux/{base.architecture}": rootfs.layout(paths, base) for base in (rootfs.OWN, rootfs.FOREIGN)}
        build_foreign_base(paths, Progress())
        with releasing.workshop(paths, address, work, bases) as workshop:
            product.add_wheels(workshop.folder / "context", rootfs.FOREIGN.architecture, paths)
            with Progress().step("a release for both platforms"):
                workshop.push(f"{address}/both", ",".join(PLATFORMS), timeout=LIMIT)
        yield address


def unpacked(registry: str, name: str, platform: str, folder: Path) -> Unpacked:
    """Unpack an image of the release into *folder*."""
    crane, root = program(Paths.from_environment(), "crane"), folder / "root"
    chosen = [f"--platform={platform}", f"{registry}/both/{name}:{__version__}"]
    config = json.loads(run([crane, "config", *chosen]))
    assert f"{config['os']}/{config['architecture']}" == platform
    run([crane, "export", *chosen, folder / "files.tar"], timeout=120)
    with tarfile.open(folder / "files.tar") as files:
        files.extractall(root, filter="fully_trusted")
    assert {machine_of(module) for module in (root / "app").rglob("*.so")} == {PLATFORMS[platform]}
    return Unpacked(root, config["config"])


def machine_of(module: Path) -> int:
    """Return the machine number in the header of an ELF file."""
    with module.open("rb") as file:
        return int.from_bytes(file.read(20)[18:], "little")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_operators_image_for_each_platform_starts(registry: str, platform: str, tmp_path: Path) -> None:
    operator = unpacked(registry, "tsoperator", platform, tmp_path)
    assert run(operator.command("--version")).strip() == f"tsoperator {__version__}"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_nameservers_image_for_each_platform_has_the_compiled_loop_and_answers(
    registry: str, platform: str, tmp_path: Path
) -> None:
    nameserver = unpacked(registry, "tsnameserver", platform, tmp_path)
    assert run(nameserver.command("--version")).strip() == f"tsnameserver {__version__} (compiled UDP loop)"
    (nameserver.root / "records.json").write_text(json.dumps(RECORDS))
    with serving(nameserver) as ask:
        right = Answer("NOERROR", ("192.0.2.7",))
        eventually(lambda: ask("db.tail1234.ts.net") == right, f"an answer on {platform}", 60)
        assert ask("web.tail1234.ts.net").rcode == "NXDOMAIN"


@contextmanager
def serving(nameserver: Unpacked) -> Iterator[Callable[[str], Answer]]:
    """Run a nameserver during the block. Yield a function that asks the nameserver for the address of a name."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--records=/records.json", f"--listen=127.0.0.1:{port}", "--health=", "--metrics="]
    asks = ["dig", "+time=2", "+tries=1", "+noall", "+comments", "+answer", "@127.0.0.1", "-p", str(port)]
    command = nameserver.command(*words)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as running:
        try:
            yield lambda name: parse_dig(run([*asks, name, "A"]))
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # chroot changes the user, so the program would outlive unshare
