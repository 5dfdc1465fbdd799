"""The SBOM: the list of the packages in an image."""

import pytest
from release import sbom
from release.sbom import Package

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: a library
 with more lines

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
LIBC = Package("deb/debian", "libc6", "2.36-9+deb12u10", "arch=amd64")


@pytest.mark.parametrize(
    ("files", "environment", "found"),
    [
        ({}, [], []),
        ({"var/lib/dpkg/status": STATUS}, [], [LIBC]),
        (
            {"var/lib/dpkg/status": STATUS, "usr/lib/os-release": b'NAME="Ubuntu"\nID=ubuntu\n'},
            [],
            [Package("deb/ubuntu", "libc6", LIBC.version, LIBC.qualifiers)],
        ),
        (
            {
                "app/PyYAML-6.0.dist-info/METADATA": b"Name: PyYAML\nVersion: 6.0\n\nName: text\n",
                "app/b.dist-info/METADATA": b"Name: async_dgram.x\nVersion: 2\n",
            },
            ["PATH=/bin"],
            [Package("pypi", "async-dgram-x", "2"), Package("pypi", "pyyaml", "6.0")],
        ),
        ({}, ["PYTHON_VERSION=3.13.1", "OTHER=1"], [Package("generic", "python", "3.13.1")]),
    ],
)
def test_packages_are_found_in_debians_database_in_pips_metadata_and_in_the_environment(
    files: dict[str, bytes], environment: list[str], found: list[Package]
) -> None:
    assert sbom.packages(files, environment) == found


def test_the_files_that_describe_packages_are_recognized() -> None:
    wanted = ["var/lib/dpkg/status", "etc/os-release", "app/aiohttp-3.dist-info/METADATA"]
    others = ["app/aiohttp-3.dist-info/RECORD", "app/METADATA", "var/lib/dpkg/status-old"]
    assert [path for path in (*wanted, *others) if sbom.is_of_interest(path)] == wanted


def test_the_package_url_of_a_package_has_its_type_name_and_version() -> None:
    packages = (LIBC, Package("pypi", "pyyaml", "6.0"), Package("oci", "a", "sha256:1"))
    urls = ["pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64", "pkg:pypi/pyyaml@6.0", "pkg:oci/a@sha256%3A1"]
    assert [package.url for package in packages] == urls


def test_an_sbom_document_says_that_the_image_contains_the_packages() -> None:
    found = sbom.document("example.org/a", "sha256:12", [LIBC], "2026-01-01T00:00:00Z")
    root, package = found["packages"]
    assert (root["name"], root["checksums"][0]) == ("example.org/a", {"algorithm": "SHA256", "checksumValue": "12"})
    named = (package["name"], package["versionInfo"], package["externalRefs"][0]["referenceLocator"])
    assert named == ("libc6", LIBC.version, LIBC.url)
    assert [tuple(each.values()) for each in found["relationships"]] == [
        ("SPDXRef-DOCUMENT", "DESCRIBES", root["SPDXID"]),
        (root["SPDXID"], "CONTAINS", package["SPDXID"]),
    ]
    assert found["creationInfo"]["created"] == "2026-01-01T00:00:00Z"
    assert found["documentNamespace"] == "https://spdx.org/spdxdocs/example.org%2Fa-12"
