"""How often a Service is pointed at its proxy while another writer keeps reverting that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsoperator.api.objects import Key, Object, key_of, uid
from tsoperator.desired.reverts import NO_REVERTS, Reverts

AT_ONCE = 3
"""How many times in a row a reverted Service is pointed at its proxy again without waiting."""
LONGEST = 60.0
"""The most seconds between two rewrites; a Service that is reverted less often than that is rewritten at once."""
MEMORY = 3600.0
"""Seconds without a revert after which earlier ones are forgotten."""
LAG = 5.0
"""Seconds for which the cache may still show a Service as it was before it was rewritten."""


@dataclass(slots=True)
class _Pointed:
    """A Service that was pointed at its proxy: when, and how often it was reverted since."""

    uid: str
    proxy: str
    version: str
    at: float
    is_reverted: bool = False
    quick: int = 0
    """How many times in a row it was reverted within `LONGEST` seconds."""
    slowest: float = 0.0
    """The most seconds that one of these reverts took."""
    total: int = 0
    last: float = float("-inf")
    """When it was last reverted."""
    fields: Sequence[str] = ()
    who: str = ""


class Rewrites:
    """Remembers which Services were pointed at their proxies, and says when to do that again; *clock* is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pointed: dict[Key, _Pointed] = {}

    def look(self, service: Object, fields: Sequence[str], proxy: str) -> Reverts:
        """Return how to react to *service*, whose *fields* don't point at its *proxy*; they are empty if all do."""
        known = self._pointed.get(key_of(service))
        if known is None or (known.uid, known.proxy) != (uid(service), proxy):
            return NO_REVERTS
        now = self._clock()
        lag = known.at + LAG - now if known.version == service["metadata"]["resourceVersion"] else 0.0
        if fields and lag > 0:
            return Reverts(wait=lag)
        if fields and not known.is_reverted:
            _count(known, fields, now)
        known.is_reverted = bool(fields)
        calm = _calm(known)
        left = max(0.0, known.at + calm - now)
        is_loud = known.total > AT_ONCE and bool(fields or left)
        return Reverts(
            known.fields if is_loud else (),
            known.who if is_loud else "",
            wait=max(0.0, known.at + _pause(known.quick) - now) if fields else 0.0,
            settles=calm if fields else left,
        )

    def remember_writer(self, service: Object, who: str) -> None:
        """Remember *who* reverts *service*."""
        self._pointed[key_of(service)].who = who

    def rewritten(self, service: Object, proxy: str) -> None:
        """Remember that *service*, as it was seen, has been pointed at its *proxy* now."""
        key, version = key_of(service), service["metadata"]["resourceVersion"]
        known = self._pointed.get(key)
        if known is None or (known.uid, known.proxy) != (uid(service), proxy):
            known = self._pointed[key] = _Pointed(uid(service), proxy, version, self._clock())
        known.version, known.at, known.is_reverted = version, self._clock(), False

    def forget(self, key: Key) -> None:
        """Forget the Service named *key*, which is gone or needs no rewrites any more."""
        self._pointed.pop(key, None)


def _count(known: _Pointed, fields: Sequence[str], now: float) -> None:
    """Count that *fields* were reverted."""
    took = now - known.at
    known.quick, known.slowest = (known.quick + 1, max(known.slowest, took)) if took < LONGEST else (1, 0.0)
    known.total = known.total + 1 if now - known.last < MEMORY else 1
    known.last, known.fields = now, fields
    if known.total == 1:
        known.who = ""


def _pause(times: int) -> float:
    """Return the seconds between two rewrites of a Service that was reverted so many *times* in a row."""
    return 0.0 if times <= AT_ONCE else min(2.0 ** min(times - AT_ONCE - 1, 10), LONGEST)


def _calm(known: _Pointed) -> float:
    """Return how long a Service must stay as it is before the fight is over: longer than the other writer took."""
    return max(_pause(known.quick), min(2 * known.slowest, LONGEST)) if known.total > AT_ONCE else 0.0
