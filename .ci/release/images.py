"""Releases the images: builds each for every platform, pushes it under one name, and attaches statements about it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from release import oci, sbom
from release.commands import Word, run
from release.statements import PROVENANCE, Build, provenance, statement

IMAGES: Final = {"tsoperator": "operator", "tsnameserver": "nameserver"}
"""The images of a release: a map from the name of an image to its target in the Dockerfile."""

_BUILD_LIMIT: Final = 3600.0  # seconds; the programs of another platform run slowly, in an emulator
_PUSH_LIMIT: Final = 900.0


@dataclass(frozen=True, slots=True)
class Place:
    """The registry of a release, and the program *crane*, which pushes images, charts and statements to it."""

    registry: str
    """The registry and the path in it: `ghcr.io/example`."""
    crane: Path
    plain_http: bool = False

    def push(self, layout: Path, reference: str, *, index: bool = False) -> None:
        """Push the image or the statement in *layout* as *reference*, such as `tsoperator:0.1.0`.

        With *index*, push an image for several platforms.
        """
        words: list[Word] = [self.crane, "push", layout, f"{self.registry}/{reference}"]
        run([*words, *(["--index"] if index else []), *self._insecure()], timeout=_PUSH_LIMIT)

    def attach(self, layout: Path, name: str, about: oci.Descriptor, said: Mapping[str, Any]) -> None:
        """Write the statement *said* into *layout*, and push it to the image or chart *name* that it is about.

        *about* is the descriptor of this image or chart, which the registry has to have already.
        """
        artifact = oci.write_artifact(layout, about, said)
        self.push(layout, f"{name}@{artifact['digest']}")

    def digest(self, reference: str) -> str:
        """Return the digest of the image or chart *reference*.

        The *reference* begins with the name of its registry, which can be another one than this registry.
        """
        return run([self.crane, "digest", reference, *self._insecure()]).strip()

    def manifest(self, reference: str) -> str:
        """Return the manifest of the image or chart *reference* in this registry."""
        return run([self.crane, "manifest", f"{self.registry}/{reference}", *self._insecure()])

    def _insecure(self) -> list[str]:
        return ["--insecure"] if self.plain_http else []


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs for the build of images: sources, base image, version and time."""

    context: Path
    base: str
    """The reference of the base image. In a release, it has a digest and no tag."""
    version: str
    created: int
    """The time that the image and its files get: that of the commit, in seconds since the epoch.

    So builds of the same commit give the same image.
    """


def now() -> str:
    """Return the current time in the format of statements: RFC 3339, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pinned(reference: str, digest: str) -> str:
    """Return the image reference *reference* with *digest* in place of its tag."""
    folder, slash, last = reference.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}@{digest}"


def release(name: str, sources: Sources, platforms: list[str], place: Place, build: Build, work: Path) -> str:
    """Build the image *name* for all *platforms*, push it, attach statements about it, and return its digest."""
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

    The names are those in the chart's default values. So a cluster whose nodes have imported *file* needs no registry.
    """
    layouts = {
        f"docker.io/library/{name}:{sources.version}": _built(name, platform, sources, work, plain_http=plain_http)
        for name in IMAGES
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    oci.write_archive(file, layouts)
    return [*layouts]


def _built(name: str, platform: str, sources: Sources, work: Path, *, plain_http: bool) -> Path:
    """Build the image *name* for one *platform*, and return the folder with its OCI layout.

    With *plain_http*, pull the base image from a registry without TLS.
    """
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
