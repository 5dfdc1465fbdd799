"""Faults of the API server, which a test can switch on and off while it runs."""

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
"""The *status* of a `Failure` in which the request takes effect, but the client gets no answer."""


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban by RBAC on requests for one kind.

    An empty *namespace* stands for requests about all namespaces at once. An empty *verb* stands for all verbs.
    """

    plural: str
    namespace: str = ""
    verb: str = ""

    def matches(self, target: Target, verb: str) -> bool:
        """Tell whether a request with *verb* for *target* is forbidden."""
        here = (self.plural, self.namespace) == (target.resource.plural, target.namespace)
        return here and self.verb in ("", verb)


@dataclass(slots=True)
class Failure:
    """A failure of the next *times* mutating requests with *verb* for *plural*.

    An empty *verb* stands for all verbs, and an empty *plural* for all kinds. *status* is the HTTP status of the error.
    If it is `LOST`, the requests take effect, but the API server cuts the connection before the answer.
    """

    status: int = 500
    times: int = 1
    verb: str = ""
    plural: str = ""

    def matches(self, verb: str, plural: str) -> bool:
        """Tell whether a mutating request with *verb* for *plural* fails."""
        return self.times > 0 and self.verb in ("", verb) and self.plural in ("", plural)


class Faults:
    """The present faults of the API server.

    While *away* is true, the server closes all connections. While *nonsense* is true, it answers all requests with
    HTML, and while *missing* is true, with 404, as a gateway in front of an API server can do.
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
        """Make requests fail as *failure* says."""
        self._failures.append(failure)

    def forbid(self, ban: Ban) -> None:
        """Forbid requests as *ban* says; watches that are open stay open."""
        self._bans.append(ban)

    def drop_watches(self) -> None:
        """End every watch that is open."""
        for watch in self.watches:
            watch.close()

    def silence_watches(self, *resources: Resource) -> None:
        """Send no more events on the open watches of *resources*, by default of all kinds.

        A client that starts such a watch again, after `drop_watches`, gets the events that it has missed.
        """
        self.silent |= {each for each in self.watches if not resources or any(map(each.wants, resources))}

    def expire_history(self) -> None:
        """Forget the history and end every watch, so that a client that resumes a watch gets a 410."""
        self._store.expire_history()
        self.drop_watches()

    def leave(self) -> None:
        """Close every connection, including those of open watches, until ``away`` is set to false."""
        self.away = True
        self.drop_watches()

    def clear(self) -> None:
        """End all faults, and answer without latency again."""
        self.latency = 0.0
        self.away = self.nonsense = self.missing = False
        self._failures.clear()
        self._bans.clear()

    async def strike(self, verb: str, plural: str) -> bool:
        """Wait for the latency, and then apply a failure that matches the request, if there is one.

        Raises ApiError if the request has to fail. Return True if the request has to be carried out, but its answer has
        to be lost.
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
        """Raise ApiError 403 if a ban forbids a request with *verb* for *target*."""
        if any(ban.matches(target, verb) for ban in self._bans):
            raise denied(target, verb)

    def to_json(self) -> Object:
        """Return the present faults as JSON."""
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
