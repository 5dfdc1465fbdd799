"""Lists the packages of an image, or the images of a chart, in an SPDX document (SBOM)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import Any, Final
from urllib.parse import quote

PREDICATE: Final = "https://spdx.dev/Document"

_DPKG: Final = "var/lib/dpkg/status"
_OS: Final = ("etc/os-release", "usr/lib/os-release")
_METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA$")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """A package in an image, or an image that the chart uses."""

    kind: str
    """The type in the package URL: `deb/debian`, `pypi`, `generic` or `oci`."""
    name: str
    version: str
    qualifiers: str = ""

    @property
    def url(self) -> str:
        """The package URL, such as `pkg:pypi/attrs@25.1.0`."""
        suffix = f"?{self.qualifiers}" if self.qualifiers else ""
        version = f"@{quote(self.version, safe='')}" if self.version else ""
        return f"pkg:{self.kind}/{quote(self.name, safe='')}{version}{suffix}"


def is_of_interest(path: str) -> bool:
    """Tell whether the file at *path* in an image says which packages the image has."""
    return path == _DPKG or path in _OS or bool(_METADATA.search(path))


def packages(files: Mapping[str, bytes], environment: Sequence[str]) -> list[Package]:
    """Return the Debian and Python packages of an image according to its *files*, and its Python interpreter.

    In Docker's official images, the interpreter comes from no package. The image's *environment* has its version.
    """
    system = _distribution(files)
    found = {*_debian(files.get(_DPKG, b"").decode(), system)}
    for path, content in files.items():
        if _METADATA.search(path):
            header = HeaderParser().parsestr(content.decode(errors="replace"))
            found.add(Package("pypi", re.sub(r"[-_.]+", "-", header["Name"]).lower(), header["Version"]))
    for variable in environment:
        name, _, value = variable.partition("=")
        if name == "PYTHON_VERSION":
            found.add(Package("generic", "python", value))
    return sorted(found)


def _distribution(files: Mapping[str, bytes]) -> str:
    for path in _OS:
        if found := re.search(rb'^ID="?([a-z]+)', files.get(path, b""), re.MULTILINE):
            return found[1].decode()
    return "debian"


def _debian(status: str, system: str) -> Iterator[Package]:
    for paragraph in status.split("\n\n"):
        header = HeaderParser().parsestr(paragraph.strip("\n"))
        if header["Package"] and str(header["Status"]).endswith(" installed"):
            yield Package(f"deb/{system}", header["Package"], header["Version"], f"arch={header['Architecture']}")


def document(name: str, digest: str, contents: Sequence[Package], created: str) -> dict[str, Any]:
    """Return the SPDX document that lists the *contents* of the image or chart *name*, made at the time *created*."""
    root = "SPDXRef-root"
    described = [_package(f"SPDXRef-{number}", each) for number, each in enumerate(contents)]
    top = {
        "SPDXID": root,
        "name": name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}],
    }
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{quote(name, safe='')}-{digest.removeprefix('sha256:')}",
        "creationInfo": {"created": created, "creators": ["Tool: make-images"]},
        "packages": [top, *described],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", root),
            *(_relation(root, "CONTAINS", each["SPDXID"]) for each in described),
        ],
    }


def _package(identifier: str, package: Package) -> dict[str, Any]:
    return {
        "SPDXID": identifier,
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.url}
        ],
    }


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
