"""Progress lines with elapsed times."""

import sys
import time


class Progress:
    """Writes lines to standard error: seconds since the start, then what happens."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Write one line."""
        sys.stderr.write(f"[{self.elapsed:6.1f} s] {text}\n")
        sys.stderr.flush()
