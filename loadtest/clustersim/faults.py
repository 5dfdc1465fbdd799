"""Faults of the API server, to be switched on and off while it runs."""

import asyncio
from dataclasses import asdict, dataclass

from clustersim.errors import ApiError
from clustersim.history import Subscription
from clustersim.kinds import Target
from clustersim.objects import Object, Resource
from clustersim.rbac import denied
from clustersim.store import Store
from clustersim.traffic import MUTATING

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
LOST = 0
"""The status of a failure that is an answer which gets lost."""


@dataclass(frozen=True, slots=True)
class Ban:
    """Requests for one kind that RBAC forbids: in *namespace*, or for all namespaces at once if empty; any *verb* if
    empty.
    """

    plural: str
    namespace: str = ""
    verb: str = ""

    def matches(self, target: Target, verb: str) -> bool:
        """Tell whether a request is forbidden."""
        here = (self.plural, self.namespace) == (target.resource.plural, target.namespace)
        return here and self.verb in ("", verb)


@dataclass(slots=True)
class Failure:
    """Mutating requests that fail: the next *times* of them; an empty filter matches all.

    With the *status* `LOST` they take effect, and the connection is cut instead of an answer.
    """

    status: int = 500
    times: int = 1
    verb: str = ""
    plural: str = ""

    def matches(self, verb: str, plural: str) -> bool:
        """Tell whether a request is to fail."""
        return self.times > 0 and self.verb in ("", verb) and self.plural in ("", plural)


class Faults:
    """The faults of the API server now; *away* closes connections, *nonsense* answers HTML, *missing* answers 404
    to everything, as a gateway in front of it may.
    """

    def __init__(self, store: Store) -> None:
        self.latency = 0.0
        self.away = False
        self.nonsense = False
        self.missing = False
        self.watches: set[Subscription] = set()
        self.silent: set[Subscription] = set()
        self._failures: list[Failure] = []
        self._bans: list[Ban] = []
        self._store = store

    def fail(self, failure: Failure) -> None:
        """Let requests fail as *failure* says."""
        self._failures.append(failure)

    def forbid(self, ban: Ban) -> None:
        """Forbid requests as *ban* says; watches that are open stay open."""
        self._bans.append(ban)

    def drop_watches(self) -> None:
        """End every watch that is open."""
        for watch in self.watches:
            watch.close()

    def silence_watches(self, *resources: Resource) -> None:
        """Let the watches of *resources*, by default all, that are open now tell nothing more.

        Whoever resumes one after `drop_watches` hears it.
        """
        self.silent |= {each for each in self.watches if not resources or any(map(each.wants, resources))}

    def expire_history(self) -> None:
        """Forget the past and end every watch: to resume one is a 410."""
        self._store.expire_history()
        self.drop_watches()

    def leave(self) -> None:
        """Be away: close every connection, the open watches too, until ``away`` is false."""
        self.away = True
        self.drop_watches()

    def clear(self) -> None:
        """Be well again."""
        self.latency = 0.0
        self.away = self.nonsense = self.missing = False
        self._failures.clear()
        self._bans.clear()

    async def strike(self, verb: str, plural: str) -> bool:
        """Wait as long as the latency says, then raise the ApiError that a request is to fail with, if any.

        Tell whether the answer is to be lost.
        """
        if self.latency:
            await asyncio.sleep(self.latency)
        if verb not in MUTATING:
            return False
        for failure in self._failures:
            if failure.matches(verb, plural):
                failure.times -= 1
                if failure.status == LOST:
                    return True
                reason = _REASONS.get(failure.status, "InternalError")
                raise ApiError(failure.status, reason, f"simulated failure: {reason}", {"retryAfterSeconds": 1})
        return False

    def authorize(self, target: Target, verb: str) -> None:
        """Raise the 403 ApiError that a request is answered with, if it is forbidden."""
        if any(ban.matches(target, verb) for ban in self._bans):
            raise denied(target, verb)

    def to_json(self) -> Object:
        """Return what is switched on."""
        failures = [
            {"status": failure.status, "times": failure.times, "verb": failure.verb, "plural": failure.plural}
            for failure in self._failures
            if failure.times > 0
        ]
        return {
            "latency": self.latency,
            "away": self.away,
            "nonsense": self.nonsense,
            "missing": self.missing,
            "fail": failures,
            "forbid": [asdict(ban) for ban in self._bans],
        }
