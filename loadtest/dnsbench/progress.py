"""Prints lines about the progress, with elapsed times."""

import sys
import time


class Progress:
    """Writes lines to standard error, each with the seconds since the start and a text."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """The number of seconds since the start."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Write one line with *text*."""
        sys.stderr.write(f"[{self.elapsed:6.1f} s] {text}\n")
        sys.stderr.flush()
