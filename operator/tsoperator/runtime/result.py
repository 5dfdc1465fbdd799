"""How a reconcile ends: when to requeue its key, or why a retry is of no use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a reconcile that succeeded. Its key is requeued after *requeue_after* seconds.

    With None it is reconciled again only when something changes.
    """

    requeue_after: float | None = None


DONE = Result()
"""The result of a reconcile that needs no requeue."""


class TerminalError(Exception):
    """An error that a retry cannot fix. The key is reconciled again when something changes."""
