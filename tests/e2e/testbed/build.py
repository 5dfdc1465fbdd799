"""Builds the programs of the testbed, and the file system of its images, into a cache outside the source tree.

Each part is built in a temporary folder, which gets its final name when the part is complete. So all complete parts
remain after an interrupted build. Go's own cache shortens the next build of a part that isn't complete.
"""

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.e2e.testbed import emulation, packages, preflight, rootfs
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.parts import ALL, Part
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

PART_LIMIT = 3600.0  # the time limit for a part in seconds, far more than any part needs


def build(paths: Paths, progress: Progress, parts: Iterable[Part] = ALL, whole: bool = True) -> None:
    """Build those of *parts* that are missing.

    With *whole*, also install the Debian packages and build the base image.

    Raises: BedError: something can't be built. The error says what.
    """
    missing = [part for part in parts if not part.output(paths).exists()]
    if missing:
        preflight.check_builds()
    elif not whole:
        return
    with locked(paths.cache, "build"):
        if whole:
            packages.install(progress)
        for part in missing:
            build_part(part, paths, progress)
        if whole:
            rootfs.build(paths, progress)


def build_foreign_base(paths: Paths, progress: Progress) -> Path:
    """Build the base image of the other architecture if it doesn't exist, and return its folder.

    Raises: BedError: it can't be built, or this machine can't run programs of that architecture.
    """
    layout = rootfs.layout(paths, rootfs.FOREIGN)
    if not layout.exists():
        with locked(paths.cache, "build"), emulation.emulated(progress):
            packages.install(progress)
            rootfs.build(paths, progress, rootfs.FOREIGN)
    return layout


def build_part(part: Part, paths: Paths, progress: Progress) -> None:
    """Build the programs of one part in a temporary folder, and give the folder its final name when all are built."""
    target = part.output(paths)
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with progress.step(f"building {part.name}: {', '.join(sorted(part.programs))}"):
        _go_build(part, unfinished)
    for name, package in part.programs.items():
        built = unfinished / (name if len(part.programs) == 1 else _default_name(package))
        if built.name != name:
            built.rename(unfinished / name)
    unfinished.rename(target)


def build_program(name: str, paths: Paths, progress: Progress) -> Path:
    """Return the path of the program *name*. If its part isn't built, build this program only.

    Raises: BedError: the program can't be built.
    """
    whole = next((part for part in ALL if name in part.programs), None)
    if whole is None:
        raise BedError(f"no part brings a program {name}")
    alone = replace(whole, programs={name: whole.programs[name]})
    for part in (whole, alone):
        if part.output(paths).exists():
            return part.output(paths) / name
    build(paths, progress, [alone], whole=False)
    return alone.output(paths) / name


def _go_build(part: Part, folder: Path) -> None:
    output = folder / next(iter(part.programs)) if len(part.programs) == 1 else f"{folder}/"
    command = ["go", "build", "-trimpath", "-ldflags", part.ldflags, "-o", output, *part.programs.values()]
    environment = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    run(command, timeout=PART_LIMIT, env=environment, cwd=part.folder)


def _default_name(package: str) -> str:
    """Return the file name that `go build` chooses for a package: the last element of its path.

    If the last element is a major version such as v2, the file name is the element before it.
    """
    elements = [element for element in package.split("/") if not re.fullmatch(r"v\d+", element)]
    return elements[-1]
