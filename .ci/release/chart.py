"""The chart: packaged so that it names the released images, pushed, and described."""

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
"""Where charts lie in the registry, apart from images."""

_HOME: Final = '  images: ""\n'
_DOCS: Final = '    docsURL: ""\n'


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart in the sources, and the program that packages it."""

    folder: Path
    helm: Path

    @property
    def name(self) -> str:
        """Its name: that of its folder."""
        return self.folder.name


class NotReleasable(Exception):
    """The sources don't fit together. The message says how."""


def released(values: str, about: str, registry: str, docs: str) -> tuple[str, str]:
    """Return a chart's values.yaml and Chart.yaml with the images of that registry, and the address of the docs.

    Raises:
        NotReleasable: they don't name images or docs as they did.
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
    """Package the chart, push it with what is to be said of it, and return its digest. *images*: name → digest.

    Raises:
        NotReleasable: the chart has another version than the images.
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
    """Attach the statements about the chart that was pushed, and return its digest."""
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
