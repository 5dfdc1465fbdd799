"""The result of a reconcile: the time to requeue its key, what it waits for, or why no retry can help."""

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a reconcile that succeeded. Its key is requeued after *requeue_after* seconds.

    With None it is reconciled again only when something changes.
    """

    requeue_after: float | None = None


class TerminalError(Exception):
    """An error that a retry cannot fix. The key is reconciled again when something changes."""


class Pending(Exception):
    """An exception by which a reconcile ends because it has to wait. This is no failure.

    Its key is queued again when *until* is done. If *requeue_after* is given, the key is also queued after so many
    seconds.
    """

    def __init__(self, until: "asyncio.Future[Any]", requeue_after: float | None = None) -> None:
        super().__init__("waiting")
        self.until = until
        self.requeue_after = requeue_after
