"""Builds a release and pushes it, or writes its images into a file: `PYTHONPATH=.ci python -m release --help`."""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from platform import machine

from release import chart, images
from release.chart import Chart, NotReleasable
from release.commands import Failed, run
from release.images import IMAGES, Place, Sources, now
from release.statements import Build, build_from

ROOT = Path(__file__).parents[2]
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names of architectures in images, by their names in Linux."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m release", description="Build images and chart, and push them.")
    goal = found.add_mutually_exclusive_group(required=True)
    goal.add_argument("--registry", help="the registry and the path in it: ghcr.io/example")
    goal.add_argument("--archive", type=Path, help="instead: a file for the images, which nodes can import")
    found.add_argument(
        "--platforms",
        default="",
        help="separated by commas (linux/amd64,linux/arm64; with --archive one, by default this machine's)",
    )
    found.add_argument("--base", default="docker.io/library/python:3.13-slim", help="the base image (%(default)s)")
    found.add_argument("--tag", default="", help="the tag in git, such as v0.1.0: it must be that of the sources")
    found.add_argument("--plain-http", action="store_true", help="for a registry without TLS")
    found.add_argument("--crane", type=Path, help="the program crane, for --registry")
    found.add_argument("--helm", type=Path, help="the program helm, for --registry")
    found.add_argument("--context", type=Path, default=ROOT, help="the folder with the Dockerfile (%(default)s)")
    found.add_argument("--digests", type=Path, help="a file for the digests of what was pushed, as JSON")
    return found


def version_of(root: Path) -> str:
    """Return the version of the sources in the folder *root*."""
    text = (root / "nameserver" / "tsnameserver" / "__init__.py").read_text()
    [found] = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(found)


def current_build(root: Path) -> tuple[Build, int]:
    """Return the run of `make images` that begins now, and the time of the commit that it builds.

    The folder *root* has the sources. The time is in seconds since the epoch.
    """
    commit, created = run(["git", "log", "-1", "--format=%H %ct"], cwd=root).split()
    clean = not run(["git", "status", "--porcelain"], cwd=root).strip()
    return build_from(os.environ, commit, clean, now()), int(created)


def checked_version(given: argparse.Namespace) -> str:
    """Return the version of the sources. Raises NotReleasable if the given tag is for another version."""
    version = version_of(given.context)
    if given.tag not in ("", f"v{version}"):
        raise NotReleasable(f"the tag is {given.tag}, but the sources are of version {version}")
    return version


def archive(given: argparse.Namespace, work: Path) -> None:
    """Build the images for one platform, and write them into one file.

    Raises:
        Failed: a command failed.
        NotReleasable: the tag is for another version than the sources, or the user named several platforms.
    """
    version = checked_version(given)
    platform = given.platforms or f"linux/{_ARCHITECTURES.get(machine(), machine())}"
    if "," in platform:
        raise NotReleasable(f"an archive is for one platform, not for {platform}: make one for each")
    _, created = current_build(ROOT)
    sources = Sources(given.context, given.base, version, created)
    print(f"building for {platform}", flush=True)
    names = images.archive(given.archive, sources, platform, work, plain_http=given.plain_http)
    print(f"{given.archive} has {' and '.join(names)}")


def release(given: argparse.Namespace, work: Path) -> dict[str, str]:
    """Build and push the images and the chart, and return the digest of each by its name in the registry.

    Raises:
        Failed: a command failed.
        NotReleasable: the tag, the images and the chart have different versions, or the chart lacks an expected line.
    """
    version = checked_version(given)
    platforms = given.platforms or "linux/amd64,linux/arm64"
    place = Place(given.registry, given.crane, given.plain_http)
    build, created = current_build(ROOT)
    sources = Sources(given.context, images.pinned(given.base, place.digest(given.base)), version, created)
    pushed = {}
    for name in IMAGES:
        print(f"{name}: building for {platforms}", flush=True)
        pushed[name] = images.release(name, sources, platforms.split(","), place, build, work)
    source = Chart(ROOT / "charts" / "tailscale-operator", given.helm)
    digest = chart.release(source, version, pushed, place, build, work / "chart")
    found = {**pushed, f"{chart.FOLDER}/{source.name}": digest}
    for name, each in found.items():
        print(f"pushed {given.registry}/{name}:{version}@{each}")
    return found


def main() -> int:
    """Run the command, and return the exit code: 0, or 1 if something failed."""
    described = parser()
    given = described.parse_args()
    if given.registry and not (given.crane and given.helm):
        described.error("--registry needs --crane and --helm")
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        found: dict[str, str] = {}
        try:
            if given.archive:
                archive(given, Path(folder))
            else:
                found = release(given, Path(folder))
        except (Failed, NotReleasable) as error:
            print(f"release: {error}", file=sys.stderr)
            return 1
    if given.digests and not given.archive:
        given.digests.parent.mkdir(parents=True, exist_ok=True)
        given.digests.write_text(json.dumps({"registry": given.registry, "digests": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
