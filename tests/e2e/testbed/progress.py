"""Prints lines about the progress, with elapsed times."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Writes a line for each step to standard error: the seconds since the start, and the step."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """Write one line."""
        sys.stderr.write(f"[{time.monotonic() - self._start:6.1f} s] {text}\n")
        sys.stderr.flush()

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print that the step *text* begins, and at its end how long it took."""
        self.say(text)
        start = time.monotonic()
        yield
        self.say(f"{text}: done in {time.monotonic() - start:.1f} s")
