"""How often a Service is pointed at its proxy while something else keeps setting it back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsoperator.api.objects import Key, Object, key_of, uid

AT_ONCE = 3
"""Times in a row that a Service which was set back is pointed at its proxy again without waiting."""
LONGEST = 60.0
"""Seconds between two rewrites at the most; what is set back more seldom than that is always mended at once."""
MEMORY = 3600.0
"""Seconds without being set back after which those times are forgotten."""
LAG = 5.0
"""Seconds for which a Service that looks as it did before it was rewritten may be the cache's delay."""


@dataclass(frozen=True, slots=True)
class Rivalry:
    """What is to be heeded of somebody who sets a Service back; by default there is nobody.

    *who* does it, if that is known, to which *fields*; both are empty unless it was done too often to keep quiet about.
    The Service may be rewritten in *wait* seconds. It is believed in once it has stayed as it is for *settles* seconds.
    """

    fields: Sequence[str] = ()
    who: str = ""
    wait: float = 0.0
    settles: float = 0.0


PEACE = Rivalry()
"""Nobody sets the Service back."""


@dataclass(slots=True)
class _Pointed:
    """A Service that was pointed at its proxy: when, and what has been made of it since."""

    uid: str
    version: str
    at: float
    is_set_back: bool = False
    quick: int = 0
    """Times in a row that it was set back within `LONGEST` seconds."""
    total: int = 0
    last: float = float("-inf")
    """When it was last set back."""
    fields: Sequence[str] = ()
    who: str = ""


class Rewrites:
    """Remembers which Services were pointed at their proxies, and paces doing it again; *clock* is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pointed: dict[Key, _Pointed] = {}

    def look(self, service: Object, fields: Sequence[str]) -> Rivalry:
        """Return what is to be heeded of *service*, whose *fields* don't point at its proxy; empty: all do."""
        known = self._pointed.get(key_of(service))
        if known is None or known.uid != uid(service):
            return PEACE
        now = self._clock()
        lag = known.at + LAG - now if known.version == service["metadata"]["resourceVersion"] else 0.0
        if fields and lag > 0:
            return Rivalry(wait=lag)
        if fields and not known.is_set_back:
            _count(known, fields, now)
        known.is_set_back = bool(fields)
        pause = _pause(known.quick)
        left = max(0.0, known.at + pause - now)
        told = known.total > AT_ONCE and bool(fields or left)
        return Rivalry(
            known.fields if told else (),
            known.who if told else "",
            wait=left if fields else 0.0,
            settles=pause if fields else left,
        )

    def blame(self, service: Object, who: str) -> None:
        """Remember *who* sets *service* back."""
        self._pointed[key_of(service)].who = who

    def rewritten(self, service: Object) -> None:
        """Remember that *service*, as it was seen, has been pointed at its proxy now."""
        key, version = key_of(service), service["metadata"]["resourceVersion"]
        known = self._pointed.get(key)
        if known is None or known.uid != uid(service):
            known = self._pointed[key] = _Pointed(uid(service), version, self._clock())
        known.version, known.at, known.is_set_back = version, self._clock(), False

    def forget(self, key: Key) -> None:
        """Forget the Service named *key*: it is gone, or no longer to be pointed anywhere."""
        self._pointed.pop(key, None)


def _count(known: _Pointed, fields: Sequence[str], now: float) -> None:
    """Note that *fields* were set back."""
    known.quick = known.quick + 1 if now - known.at < LONGEST else 1
    known.total = known.total + 1 if now - known.last < MEMORY else 1
    known.last, known.fields = now, fields
    if known.total == 1:
        known.who = ""


def _pause(times: int) -> float:
    """Return the seconds from one rewrite to the next of what was set back so many *times* in a row."""
    return 0.0 if times <= AT_ONCE else min(2.0 ** min(times - AT_ONCE - 1, 10), LONGEST)
