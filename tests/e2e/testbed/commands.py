"""Runs a command to its end, with a time limit. An error shows the command's output."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.testbed.errors import BedError

Word = str | Path  # one word of a command line


def run(
    argv: Sequence[Word],
    timeout: float = 60,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run *argv* and return its standard output.

    *env* is added to the environment. *timeout* is in seconds.

    Raises: BedError: the command failed, took too long, or isn't installed.
    """
    command = [str(word) for word in argv]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise BedError(f"took longer than {timeout:.0f} s: {' '.join(command)}") from slow
    except FileNotFoundError as missing:
        raise BedError(f"not installed: {command[0]}") from missing
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise BedError(f"exit code {done.returncode}: {' '.join(command)}\n{said}")
    return done.stdout
