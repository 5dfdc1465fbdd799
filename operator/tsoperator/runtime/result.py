"""The ways in which a reconcile can end: with a result, with a wait, or with an error that no retry fixes."""

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconcile that succeeded. Its key is queued again after *requeue_after* seconds.

    If *requeue_after* is None, the key is queued again only when something changes.
    """

    requeue_after: float | None = None


class TerminalError(Exception):
    """An error that a retry cannot fix. The key is reconciled again only when something changes."""


class Pending(Exception):
    """An exception by which a reconcile ends because it has to wait. This is no failure.

    Its key is queued again when *until* is done, and also after *requeue_after* seconds unless that is None.
    """

    def __init__(self, until: "asyncio.Future[Any]", requeue_after: float | None = None) -> None:
        super().__init__("waiting")
        self.until = until
        self.requeue_after = requeue_after
