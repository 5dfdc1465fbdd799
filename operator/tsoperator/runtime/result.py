"""What a reconcile says about the time after it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a reconcile that worked: look again after *requeue_after* seconds, or only when something changes."""

    requeue_after: float | None = None


DONE = Result()


class TerminalError(Exception):
    """A failure that retrying cannot mend: it waits for a change of the object."""
