"""Builds the images of the product, and installs the chart on the bed."""

import hashlib
import json
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tsoperator.api.names import LEASE_NAME
from tsoperator.api.objects import Object

from tests.e2e.testbed import control, oci, registry, rootfs
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word, run
from tests.e2e.testbed.management import CLIENT_ID, CLIENT_SECRET
from tests.e2e.testbed.parts import TAILSCALE, program
from tests.e2e.testbed.paths import Paths

TREE = Path(__file__).parents[2]
NAMESPACE = "tailscale"
RELEASE = "operator"
OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:operator"
"""The operator's user, as the API server names it."""
CREDENTIALS = {"oauth": {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}, "loginServer": control.URL}
PROXY_IMAGE = f"tailscale/tailscale:v{TAILSCALE}"
RECORDER_IMAGE = f"tailscale/tsrecorder:v{TAILSCALE}"

CHART = TREE / "charts" / "tailscale-operator"
_PYTHON = "3.11"  # the version of Python in the bed's base image
_BUILT_FROM = ("Dockerfile", "pyproject.toml", "nameserver", "operator", "loadtest/dnsload")
_NO_SOURCES = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
_ACME_ROOT = "/etc/ssl/testbed-root.pem"


@dataclass(frozen=True, slots=True)
class ProductImages:
    """The names under which our images were pushed."""

    operator: str
    nameserver: str


def push_images(bed: Bed) -> ProductImages:
    """Build and push the images of the operator, the nameserver, the proxies, k8s-proxy and tsrecorder."""
    operator, nameserver = (push_image(bed, target) for target in ("operator", "nameserver"))
    names = ("containerboot", "tailscaled", "tailscale")
    _push_tailscale(bed, PROXY_IMAGE, *(f"/usr/local/bin/{name}" for name in names))
    push_k8s_proxy(bed)
    _push_tailscale(bed, RECORDER_IMAGE, "/tsrecorder")
    return ProductImages(operator, nameserver)


def push_k8s_proxy(bed: Bed, tag: str = f"v{TAILSCALE}") -> None:
    """Push the image of ProxyGroups of type kube-apiserver with this *tag*."""
    _push_tailscale(bed, f"tailscale/k8s-proxy:{tag}", "/usr/local/bin/k8s-proxy")


def push_image(bed: Bed, target: str) -> str:
    """Build one target of the Dockerfile, push it, and return its name."""
    folder = context(bed.paths)
    name = f"example/{target}:{folder.name}"
    bed.images.push_dockerfile(name, folder, target, {"BASE": registry.BASE})
    return name


def deploy(bed: Bed, images: ProductImages) -> None:
    """Install the chart, and wait until the operator is ready."""
    install(bed, CHART, {**CREDENTIALS, **image_values(images)})


def install(bed: Bed, chart: Path, values: Mapping[str, Any]) -> None:
    """Install a chart, or upgrade to it, and wait until the operator is ready."""
    file = bed.paths.work / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    words: list[Word] = ["upgrade", "--install", RELEASE, chart, "--namespace", NAMESPACE, "--create-namespace"]
    bed.helm(*words, "--values", file)
    wait_ready(bed, 90)


def uninstall(bed: Bed) -> None:
    """Uninstall the chart, and wait until the operator is gone."""
    with bed.plane.excused("the release was uninstalled"):  # its roles may go before its Pods have ended
        bed.helm("uninstall", RELEASE, "--namespace", NAMESPACE)
        words = ["wait", "pods", "--selector=app=operator", "--for=delete", "--timeout=60s"]
        bed.kubectl("--namespace", NAMESPACE, *words, timeout=70)


def lease(bed: Bed) -> Object:
    """Return the Lease of the leading operator."""
    found: Object = json.loads(bed.kubectl("-n", NAMESPACE, "get", "lease", LEASE_NAME, "-o", "json"))
    return found


def wait_ready(bed: Bed, seconds: int = 60) -> None:
    """Wait until every replica of the operator is ready and has the newest version."""
    words = ["rollout", "status", "deployment/operator", f"--timeout={seconds}s"]
    bed.kubectl("-n", NAMESPACE, *words, timeout=seconds + 10)


def image_values(images: ProductImages) -> dict[str, Any]:
    """Return values for the chart that name our images and give the operator every right.

    They don't name the image of proxies, so proxies have the chart's default image.
    """
    operator, nameserver = (_image(name) for name in (images.operator, images.nameserver))
    return {"operatorConfig": {"image": operator, "nameserverImage": nameserver, "manageClusterDNS": True}}


def _image(name: str) -> dict[str, str]:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}


def _push_tailscale(bed: Bed, name: str, *files: str) -> None:
    """Push an image with the layout of an official one, set up for the bed's relay and ACME server.

    *files* are its programs. The first one is the entry point.
    """
    copies = {file: program(bed.paths, Path(file).name) for file in files}
    copies[_ACME_ROOT] = control.acme_authority(bed.paths).ca
    environment = {**control.TAILSCALED_ENV, **control.ACME_ENV, "SSL_CERT_FILE": _ACME_ROOT}
    start = oci.Start([files[0]], environment=[oci.PATH, *(f"{key}={value}" for key, value in environment.items())])
    bed.images.push_files(name, copies, start)


def context(paths: Paths) -> Path:
    """Return a build context: a folder with the source tree and the wheels. Its name changes with their content."""
    cache = paths.cache / "product"
    packed = wheels(cache / "wheels")
    seen = hashlib.sha256(f"{packed.name} {rootfs.layout(paths).name}".encode())
    for file in _sources():
        seen.update(f"{file.relative_to(TREE)}\0".encode() + file.read_bytes() + b"\0")
    folder = cache / "contexts" / seen.hexdigest()[:16]
    if not folder.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        unfinished = folder.with_name("unfinished")
        unfinished.mkdir(parents=True)
        for name in _BUILT_FROM:
            source = TREE / name
            if source.is_dir():
                shutil.copytree(source, unfinished / name, ignore=_NO_SOURCES)
            else:
                shutil.copy2(source, unfinished)
        shutil.copytree(packed, unfinished / "wheels")
        unfinished.rename(folder)
    return folder


def add_wheels(folder: Path, architecture: str, paths: Paths) -> None:
    """Add the wheels for another architecture to a build context in *folder*."""
    packed = wheels(paths.cache / "product" / "wheels", platforms=platform_tags(architecture))
    shutil.copytree(packed, folder / "wheels", dirs_exist_ok=True)


def platform_tags(architecture: str) -> tuple[str, ...]:
    """Return the platform tags of wheels that run in images for *architecture*."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    return tuple(f"{each}_{machine}" for each in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"))


def _sources() -> list[Path]:
    files = [
        file for name in _BUILT_FROM for file in ((TREE / name).rglob("*") if (TREE / name).is_dir() else [TREE / name])
    ]
    kept = [file for file in files if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so"]
    return sorted(file for file in kept if not any(part.endswith(".egg-info") for part in file.parts))


def wheels(cache: Path, python: str = _PYTHON, platforms: Sequence[str] = ()) -> Path:
    """Return a folder with the wheels for the images, for this machine or for other *platforms*.

    They are downloaded once. Raises: BedError: a wheel doesn't exist for any of the platforms.
    """
    extras = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = sorted({need for extra in ("operator", "nameserver", "loadtest") for need in extras[extra]})
    folder = cache / hashlib.sha256(repr((python, platforms, wanted)).encode()).hexdigest()[:16]
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip: list[Word] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        download: list[Word] = ["download", "--only-binary=:all:", f"--python-version={python}", "--dest", unfinished]
        run([*pip, *download, *(f"--platform={each}" for each in platforms), *wanted], timeout=300)
        unfinished.rename(folder)
    return folder
