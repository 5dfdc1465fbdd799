"""Builds what the testbed runs, into a cache outside the tree: Go programs, and the file system under all images.

Each part is built into a folder of its own and renamed into place when it is whole, so that a build that was stopped
leaves the parts before it, and Go's own cache shortens the rest.
"""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.e2e.testbed import packages, preflight, rootfs
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked
from tests.e2e.testbed.parts import ALL, Part
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

PART_LIMIT = 3600.0  # seconds; far above what one part takes
REPORT_EVERY = 20.0  # seconds between progress lines


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
        _go_build(part, unfinished, progress)
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


def _go_build(part: Part, folder: Path, progress: Progress) -> None:
    output = folder / next(iter(part.programs)) if len(part.programs) == 1 else f"{folder}/"
    command = ["go", "build", "-v", "-trimpath", "-ldflags", part.ldflags, "-o", str(output), *part.programs.values()]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    with subprocess.Popen(
        command, cwd=part.folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as compiler:
        said = _follow(compiler, part, progress)
    if compiler.returncode:
        raise BedError(f"{part.name} does not build (exit code {compiler.returncode}):\n" + "\n".join(said[-20:]))


def _follow(compiler: "subprocess.Popen[str]", part: Part, progress: Progress) -> list[str]:
    """Report how far the compiler is, end it at the time limit, and return what it said."""
    said: list[str] = []
    limit = threading.Timer(PART_LIMIT, compiler.kill)
    limit.start()
    try:
        reported = time.monotonic()
        for line in compiler.stderr or ():
            said.append(line.rstrip())
            if time.monotonic() - reported > REPORT_EVERY:
                reported = time.monotonic()
                progress.say(f"  {part.name}: {len(said)} Go packages so far, now {said[-1]}")
    finally:
        limit.cancel()
    return said


def _default_name(package: str) -> str:
    """Name the file that `go build` makes of a package: its last element that isn't a major version."""
    elements = [element for element in package.split("/") if not re.fullmatch(r"v\d+", element)]
    return elements[-1]
