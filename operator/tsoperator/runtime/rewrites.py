"""Decides when to rewrite an object that the operator shares with others, while another writer keeps reverting it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.reverts import NO_REVERTS, Reverts

AT_ONCE = 3
"""The number of times in a row that a reverted object is rewritten without waiting."""
LONGEST = 60.0
"""The most seconds between two rewrites; an object that is reverted less often than that is rewritten at once."""
MEMORY = 3600.0
"""Seconds without a revert after which earlier ones are forgotten."""
LAG = 5.0
"""The longest time, in seconds, for which the cache still shows an object as it was before it was rewritten."""


@dataclass(slots=True)
class _Rewritten:
    """The rewrites of an object for the same *goal*, a text that says what the object is to become.

    The latest rewrite was at the time *at*, and replaced the object's resourceVersion *version*. The other fields are
    about the reverts so far.
    """

    goal: str
    version: str
    at: float
    is_reverted: bool = False
    quick: int = 0
    """The number of times in a row that the object was reverted within `LONGEST` seconds."""
    slowest: float = 0.0
    """The longest time from a rewrite to its revert, in seconds, among the reverts in a row within `LONGEST`."""
    total: int = 0
    last: float = float("-inf")
    """The time at which the object was last reverted."""
    fields: Sequence[str] = ()
    who: str = ""


class Rewrites:
    """Remembers that an object was rewritten, and decides when to rewrite it again; *clock* is monotonic.

    Each rewrite has a *goal*, a text that says what the object is to become. A change of the goal is no revert, so
    all counts start anew with another goal.
    """

    def __init__(self, clock: Callable[[], float] = loop_time) -> None:
        self._clock = clock
        self._last: _Rewritten | None = None

    def look(self, version: str, fields: Sequence[str], goal: str) -> Reverts:
        """Return the reaction to the present state of an object.

        *fields* are the fields that differ from the *goal*, empty if none does. *version* is the object's
        resourceVersion, empty if the object doesn't exist.
        """
        known = self._last
        if known is None or known.goal != goal:
            return NO_REVERTS
        now = self._clock()
        lag = known.at + LAG - now if version and known.version == version else 0.0
        if fields and lag > 0:
            return Reverts(wait=lag)
        if fields and not known.is_reverted:
            _count(known, fields, now)
        known.is_reverted = bool(fields)
        calm = _calm(known)
        left = _left(known.at + calm - now)
        is_loud = known.total > AT_ONCE and bool(fields or left)
        return Reverts(
            known.fields if is_loud else (),
            known.who if is_loud else "",
            wait=_left(known.at + _pause(known.quick) - now) if fields else 0.0,
            settles=calm if fields else left,
        )

    def remember_writer(self, who: str) -> None:
        """Remember that the writer called *who* reverts the object."""
        if self._last is not None:
            self._last.who = who

    def rewritten(self, version: str, goal: str) -> None:
        """Remember that the object, which was seen in *version*, has been rewritten for *goal* now."""
        known = self._last
        if known is None or known.goal != goal:
            known = self._last = _Rewritten(goal, version, self._clock())
        known.version, known.at, known.is_reverted = version, self._clock(), False


def _left(seconds: float) -> float:
    """Return *seconds*, or 0 if they are at most a millisecond, because a timer can fire that much too early."""
    return seconds if seconds > 0.001 else 0.0


def _count(known: _Rewritten, fields: Sequence[str], now: float) -> None:
    """Add a revert of *fields* at the time *now* to the numbers of *known*."""
    took = now - known.at
    known.quick, known.slowest = (known.quick + 1, max(known.slowest, took)) if took < LONGEST else (1, 0.0)
    known.total = known.total + 1 if now - known.last < MEMORY else 1
    known.last, known.fields = now, fields
    if known.total == 1:
        known.who = ""


def _pause(times: int) -> float:
    """Return the seconds between two rewrites of an object that was reverted so many *times* in a row."""
    return 0.0 if times <= AT_ONCE else min(2.0 ** min(times - AT_ONCE - 1, 10), LONGEST)


def _calm(known: _Rewritten) -> float:
    """Return the seconds after which a rewrite that nobody has reverted counts as lasting.

    They are longer than the other writer took for its reverts. They are 0 if there were at most `AT_ONCE` reverts.
    """
    return max(_pause(known.quick), min(2 * known.slowest, LONGEST)) if known.total > AT_ONCE else 0.0
