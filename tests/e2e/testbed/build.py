"""Builds what the testbed runs, into a cache outside the tree: Go programs, and the file system under all images.

Each part is built into a folder of its own and renamed into place when it is whole, so that a build that was stopped
leaves the parts before it, and Go's own cache shortens the rest.
"""

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.e2e.testbed import packages, preflight, rootfs
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.parts import ALL, Part
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

PART_LIMIT = 3600.0  # seconds; far above what one part takes


def build(paths: Paths, progress: Progress, parts: Iterable[Part] = ALL, whole: bool = True) -> None:
    """Build the *parts* that are missing; with *whole*, also the Debian packages and the base image.

    Raises:
        BedError: something can't be built; says what.
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


def build_part(part: Part, paths: Paths, progress: Progress) -> None:
    """Build one part's programs and move them into place at once."""
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
    """Return where the program *name* lies: in its part where that is built, else built here without the rest of it.

    Raises:
        BedError: it can't be built; says what.
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
    """Name the file that `go build` makes of a package: its last element that isn't a major version."""
    elements = [element for element in package.split("/") if not re.fullmatch(r"v\d+", element)]
    return elements[-1]
