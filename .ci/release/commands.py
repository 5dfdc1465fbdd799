"""Running one command to its end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

Word = str | Path

_SHOWN: Final = 2000  # characters of what a command said that failed


class Failed(Exception):
    """A command failed. The message has its words and the end of what it said."""


def run(argv: Sequence[Word], timeout: float = 120, cwd: Path | None = None) -> str:
    """Run *argv* and return what it prints. *timeout* is in seconds.

    Raises:
        Failed: it failed, took too long, or isn't installed.
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
