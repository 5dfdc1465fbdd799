"""The images: built from the Dockerfile for each platform, pushed as one, and described."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from release import oci, sbom
from release.commands import Word, run
from release.statements import PROVENANCE, Build, provenance, statement

IMAGES: Final = {"tsoperator": "operator", "tsnameserver": "nameserver"}
"""The images that a release has, by name: each with its target in the Dockerfile."""

_BUILD_LIMIT: Final = 3600.0  # seconds; another platform's programs run in an emulator
_PUSH_LIMIT: Final = 900.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where artifacts go, and what takes them there."""

    registry: str
    """The registry and the path in it: `ghcr.io/example`."""
    crane: Path
    plain_http: bool = False

    def push(self, layout: Path, reference: str, *, index: bool = False) -> None:
        """Push the one image, artifact or index in a layout as *reference*, such as `tsoperator:0.1.0`."""
        words: list[Word] = [self.crane, "push", layout, f"{self.registry}/{reference}"]
        run([*words, *(["--index"] if index else []), *self._insecure()], timeout=_PUSH_LIMIT)

    def attach(self, layout: Path, name: str, about: oci.Descriptor, said: Mapping[str, Any]) -> None:
        """Push a statement about an artifact *name* that is there."""
        artifact = oci.write_artifact(layout, about, said)
        self.push(layout, f"{name}@{artifact['digest']}")

    def digest(self, reference: str) -> str:
        """Return the digest of what any registry has as *reference*."""
        return run([self.crane, "digest", reference, *self._insecure()]).strip()

    def manifest(self, reference: str) -> str:
        """Return the manifest that the registry has as *reference*."""
        return run([self.crane, "manifest", f"{self.registry}/{reference}", *self._insecure()])

    def _insecure(self) -> list[str]:
        return ["--insecure"] if self.plain_http else []


@dataclass(frozen=True, slots=True)
class Sources:
    """The folders and files from which images are built."""

    context: Path
    base: str
    """The base image by its digest."""
    version: str
    created: int
    """Seconds since 1970 that files and images are said to be of: the commit's, so that a build can be repeated."""


def now() -> str:
    """Return the time as statements have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pinned(reference: str, digest: str) -> str:
    """Return an image reference with a digest in place of its tag."""
    folder, slash, last = reference.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}@{digest}"


def release(name: str, sources: Sources, platforms: list[str], place: Place, build: Build, work: Path) -> str:
    """Build the image *name* for all platforms, push it with what is to be said of it, and return its digest."""
    layouts = {platform: _built(name, platform, sources, work, plain_http=place.plain_http) for platform in platforms}
    index = work / name / "index"
    described = oci.write_index(index, layouts)
    place.push(index, f"{name}:{sources.version}", index=True)
    full = f"{place.registry}/{name}"
    for platform, layout in layouts.items():
        image = oci.only_manifest(layout)
        files = oci.files_of(layout, sbom.is_of_interest)
        found = sbom.packages(files, oci.config_of(layout)["config"].get("Env", []))
        document = sbom.document(full, image["digest"], found, build.started)
        said = statement(full, image["digest"], sbom.PREDICATE, document)
        place.attach(work / name / platform.replace("/", "-") / "sbom", name, image, said)
    parameters = {"target": IMAGES[name], "platforms": platforms, "version": sources.version}
    made = provenance(replace(build, finished=now()), parameters, dict([sources.base.split("@")]))
    said = statement(full, described["digest"], PROVENANCE, made)
    place.attach(work / name / "provenance", name, described, said)
    return str(described["digest"])


def archive(file: Path, sources: Sources, platform: str, work: Path, *, plain_http: bool = False) -> list[str]:
    """Build the images for one platform, write them into *file*, and return their names.

    These are the names that the chart gives them by default, so that a cluster whose nodes have them needs no registry.
    """
    layouts = {
        f"docker.io/library/{name}:{sources.version}": _built(name, platform, sources, work, plain_http=plain_http)
        for name in IMAGES
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    oci.write_archive(file, layouts)
    return [*layouts]


def _built(name: str, platform: str, sources: Sources, work: Path, *, plain_http: bool) -> Path:
    """Return the layout of an image for one platform; *plain_http* is for a base image's registry without TLS."""
    folder = work / name / platform.replace("/", "-")
    folder.mkdir(parents=True)
    arguments = {"BASE": sources.base, "VERSION": sources.version}
    words: list[Word] = ["buildah", "build", "--layers", "--format=oci", f"--timestamp={sources.created}"]
    words += [f"--platform={platform}", f"--target={IMAGES[name]}", f"--iidfile={folder / 'id'}"]
    words += [f"--build-arg={key}={value}" for key, value in arguments.items()]
    words += ["--tls-verify=false"] if plain_http else []
    run([*words, sources.context], timeout=_BUILD_LIMIT)
    layout = folder / "image"
    run(["buildah", "push", (folder / "id").read_text().strip(), f"oci:{layout}"], timeout=_PUSH_LIMIT)
    return layout
