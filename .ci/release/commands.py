"""Runs a command, and waits for its end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

Word = str | Path

_SHOWN: Final = 2000  # the most characters of a failed command's output that an error shows


class Failed(Exception):
    """A command failed. The message has the command line and the end of the output."""


def run(argv: Sequence[Word], timeout: float = 120, cwd: Path | None = None) -> str:
    """Run the command *argv* and return its standard output. *timeout* is in seconds.

    Raises:
        Failed: the command failed, took longer than *timeout*, or isn't installed.
    """
    words = [str(word) for word in argv]
    shown = " ".join(words)
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError as missing:
        raise Failed(f"{words[0]} isn't installed") from missing
    except subprocess.TimeoutExpired as slow:
        raise Failed(f"took longer than {timeout:.0f} s: {shown}") from slow
    if done.returncode:
        raise Failed(f"exit code {done.returncode}: {shown}\n{(done.stderr or done.stdout).strip()[-_SHOWN:]}")
    return done.stdout
