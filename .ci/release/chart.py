"""Releases the chart: makes it name the released images, packages and pushes it, and attaches statements about it."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from release import oci, sbom
from release.commands import Word, run
from release.images import Place, now
from release.statements import PROVENANCE, Build, provenance, statement

FOLDER: Final = "charts"
"""The folder of charts in the registry. Images are outside this folder."""

_HOME: Final = '  images: ""\n'
_DOCS: Final = '    docsURL: ""\n'


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart in the sources, and the program that packages it."""

    folder: Path
    helm: Path

    @property
    def name(self) -> str:
        """The name of the chart, which is the name of its folder."""
        return self.folder.name


class NotReleasable(Exception):
    """The sources can't be released, for example because two versions differ. The message says why."""


def released(values: str, about: str, registry: str, docs: str) -> tuple[str, str]:
    """Return the texts of values.yaml and Chart.yaml in the released chart.

    They are the texts *values* and *about* of the sources, with images from *registry*, and with *docs*, the URL of the
    documentation.

    Raises:
        NotReleasable: a text lacks a line that has to be replaced.
    """
    named, count = re.subn(r"(?m)^( +repository: )(tsoperator|tsnameserver)$", rf"\g<1>{registry}/\2", values)
    if count != 2 or about.count(_HOME) != 1:
        raise NotReleasable(
            "values.yaml has to name the images tsoperator and tsnameserver, and Chart.yaml their place"
        )
    if named.count(_DOCS) != 1:
        raise NotReleasable("values.yaml has to have one docsURL, which is empty")
    return named.replace(_DOCS, f'    docsURL: "{docs}"\n'), about.replace(_HOME, f'  images: "{registry}"\n')


def release(chart: Chart, version: str, images: Mapping[str, str], place: Place, build: Build, work: Path) -> str:
    """Package the chart, push it, attach statements about it, and return its digest.

    *images* has the digest of each released image, by the name of the image.

    Raises:
        NotReleasable: the chart has another version than the images, or lacks a line that has to be replaced.
    """
    copy = work / chart.name
    shutil.copytree(chart.folder, copy)
    values, about = copy / "values.yaml", copy / "Chart.yaml"
    versions = re.findall(r'(?m)^(?:appVersion|version): "?([^"\n]+)"?$', about.read_text())
    if versions != [version, version]:
        raise NotReleasable(f"version and appVersion of Chart.yaml are {versions}, those of the images {version}")
    texts = released(values.read_text(), about.read_text(), place.registry, build.docs)
    for file, text in zip((values, about), texts, strict=True):
        file.write_text(text)
    run([chart.helm, "package", copy, "--destination", work])
    words: list[Word] = [chart.helm, "push", work / f"{chart.name}-{version}.tgz", f"oci://{place.registry}/{FOLDER}"]
    run([*words, *(["--plain-http"] if place.plain_http else [])])
    return _describe(f"{FOLDER}/{chart.name}", version, images, place, build, work)


def _describe(name: str, version: str, images: Mapping[str, str], place: Place, build: Build, work: Path) -> str:
    """Attach an SBOM and the provenance to the pushed chart *name*, and return the digest of the chart."""
    reference = f"{name}:{version}"
    digest = place.digest(f"{place.registry}/{reference}")
    size = len(place.manifest(f"{name}@{digest}").encode())
    about = {"mediaType": oci.MANIFEST, "digest": digest, "size": size}
    full = f"{place.registry}/{name}"
    contents = [
        sbom.Package("oci", image, found, f"repository_url={place.registry}/{image}") for image, found in images.items()
    ]
    document = sbom.document(full, digest, contents, build.started)
    made = provenance(replace(build, finished=now()), {"version": version, "images": dict(images)})
    for kind, type_, predicate in (("sbom", sbom.PREDICATE, document), ("provenance", PROVENANCE, made)):
        place.attach(work / kind, name, about, statement(full, digest, type_, predicate))
    return digest
