"""Writes log lines about callers, but only some of them if there are many."""

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

_MOST_NOTED: Final = 1000
"""The number of messages that are remembered so that they are logged only once."""


class Notes:
    """Logs events of callers: at most *most* lines in *seconds*, and then the number of lines that were left out."""

    def __init__(self, most: int = 20, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._written = 0
        self._noted: set[tuple[str, str]] = set()

    def note(self, who: str, message: str) -> None:
        """Log a *message* about the caller *who*, unless there are too many lines."""
        now = self._clock()
        if now >= self._until:
            if self._written > self._most:
                log.info("%d more lines about callers were left out", self._written - self._most)
            self._until, self._written = now + self._seconds, 0
        self._written += 1
        if self._written <= self._most:
            log.info("%s: %s", who, message)

    def once(self, who: str, message: str) -> None:
        """Log a *message* about *who* as `note` does, unless the same message about *who* has been logged before."""
        if (who, message) not in self._noted:
            if len(self._noted) >= _MOST_NOTED:
                self._noted.clear()
            self._noted.add((who, message))
            self.note(who, message)
