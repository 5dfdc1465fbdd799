"""The product's images: the files that they add to the base image, their user, and their start."""

import re
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tsnameserver import __version__

from tests.e2e import product
from tests.e2e.cluster import Cluster
from tests.e2e.product import ProductImages
from tests.e2e.testbed import oci, registry, rootfs
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.paths import Paths
from tests.e2e.waiting import eventually

Object = dict[str, Any]

MEGABYTE = 1_000_000
LIMITS = {"nameserver": 60, "operator": 120}  # megabytes that the layers above the base may have, uncompressed
COMPILED = re.compile(r"(.*)__pycache__/(.+)\.cpython-\d+(?:\.opt-(\d))?\.pyc")
SHELLS = ("/usr/bin/bash", "/usr/bin/dash")
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
"""
PACKAGES = {"nameserver": ["tsnameserver"], "operator": ["tsoperator"]}


class Image(NamedTuple):
    """An image: its target in the Dockerfile, its configuration, and the files that its layers add to the base."""

    target: str
    name: str
    config: Object
    added: Sequence[tarfile.TarInfo]


@pytest.fixture(scope="module", params=LIMITS)
def image(bed: Bed, images: ProductImages, request: pytest.FixtureRequest) -> Image:
    """Each image of the product, one after the other."""
    name: str = getattr(images, request.param)
    described, layers = registry.read(bed.paths, bed.machines["node"], bed.folder / "registry", name)
    below = len(oci.layers_of(rootfs.layout(bed.paths)))
    added = [entry for layer in layers[below:] for entry in _entries(layer)]
    return Image(request.param, name, described["config"], added)


def _entries(layer: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(layer) as files:
        return files.getmembers()


def test_an_image_adds_few_megabytes_to_its_base(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    size = sum(entry.size for entry in image.added) / MEGABYTE
    with capsys.disabled():
        sys.stdout.write(f"\n{image.target}: {size:.1f} MB above its base\n")
    assert 0 < size <= LIMITS[image.target]


def test_an_image_adds_only_its_own_program_to_its_base(image: Image) -> None:
    """Build tools, such as the compiler, must stay in the earlier stages of the Dockerfile."""
    assert [entry.name for entry in image.added if entry.name.partition("/")[0] not in ("", ".", "app")] == []


def test_only_the_nameservers_image_has_the_compiled_loop_which_takes_less_than_a_megabyte(image: Image) -> None:
    found = {Path(entry.name).name: entry.size for entry in image.added if "_udploop" in entry.name}
    modules = {name: size for name, size in found.items() if name.endswith(".so")}
    assert len(modules) == (image.target == "nameserver")
    assert sum(found.values()) < MEGABYTE


def test_the_labels_of_an_image_name_its_program(image: Image) -> None:
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in image.config["Labels"].items()}
    assert labels["title"] == f"ts{image.target}"
    assert labels["version"] == __version__
    assert labels["licenses"] == "BSD-3-Clause"
    assert labels["description"]


def test_an_image_runs_as_a_user_that_has_a_number_and_is_not_root(image: Image) -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.config["User"])


def test_an_image_starts_its_program(image: Image) -> None:
    assert (image.config["Entrypoint"], image.config.get("Cmd") or []) == (["python3", "-m", f"ts{image.target}"], [])


def test_the_user_of_an_image_can_neither_change_a_file_in_it_nor_become_another_user(image: Image) -> None:
    added = [entry for entry in image.added if not entry.issym()]
    assert [entry.name for entry in added if entry.mode & 0o6000] == []
    assert [entry.name for entry in added if entry.uid or entry.gid or entry.mode & 0o002] == []


def test_an_image_has_the_bytecode_of_all_its_modules(image: Image) -> None:
    """The file system is read-only, so Python couldn't store bytecode and would compile the modules at each start."""
    names = {entry.name for entry in image.added if entry.name.startswith("app/")}
    compiled = [found for name in names if (found := COMPILED.fullmatch(name))]
    optimized = "2" if "PYTHONOPTIMIZE=2" in image.config["Env"] else None
    sources = {f"{folder}{module}.py" for folder, module, level in map(re.Match.groups, compiled) if level == optimized}
    assert {name for name in names if name.endswith(".py")} == sources != set()


def test_compiled_wheels_for_arm64_exist() -> None:
    found = product.wheels(
        Paths.from_environment().cache / "product" / "wheels", "3.13", product.platform_tags("arm64")
    )
    platforms = {wheel.stem.rpartition("-")[2] for wheel in found.glob("*.whl")}
    assert any("aarch64" in platform for platform in platforms)
    assert [each for each in platforms if each != "any" and "aarch64" not in each] == []


def test_an_image_works_without_a_shell_and_with_a_read_only_file_system(
    cluster: Cluster, image: Image, namespace: str
) -> None:
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("nothing", namespace), "data": {"it": ""}}
    )
    cluster.apply(_pod(image, namespace))
    eventually(lambda: _phase(cluster, namespace) in {"Succeeded", "Failed"}, "the Pod's end")
    said = cluster.bed.kubectl("-n", namespace, "logs", "trial", "--all-containers", "--prefix")
    assert _phase(cluster, namespace) == "Succeeded", said
    assert f"usage: ts{image.target}" in said


def _phase(cluster: Cluster, namespace: str) -> str:
    return str((cluster.get("pod", "trial", namespace) or {})["status"]["phase"])


def _named(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace}


def _pod(image: Image, namespace: str) -> Object:
    """Return a Pod that runs the program of *image*, and then imports all its modules.

    An empty file is mounted over each shell of the image.
    """
    common = {
        "image": image.name,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
        "volumeMounts": [{"name": "nothing", "mountPath": shell, "subPath": "it"} for shell in SHELLS],
    }
    containers = [
        {"name": "program", "args": ["--help"], **common},
        {"name": "modules", "command": ["python3", "-c", IMPORT_ALL, *PACKAGES[image.target]], **common},
    ]
    volumes = [{"name": "nothing", "configMap": {"name": "nothing"}}]
    spec = {"restartPolicy": "Never", "containers": containers, "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _named("trial", namespace), "spec": spec}
