"""Counts requests by user agent, verb and kind."""

from collections import Counter

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Request = tuple[str, str, str]
"""The user agent of a request (``-`` if it has none), its verb, and the plural of its kind."""


class Traffic:
    """The number of requests to the API server since it started."""

    def __init__(self) -> None:
        self.requests: Counter[Request] = Counter()
        self.writes: Counter[Request] = Counter()

    def count(self, user_agent: str, verb: str, plural: str) -> None:
        """Count one request, even if the API server refuses it."""
        request = (user_agent or "-", verb, plural)
        self.requests[request] += 1
        if verb in MUTATING:
            self.writes[request] += 1

    def writes_since(self, before: Counter[Request]) -> Counter[Request]:
        """Return the writes since *before*, an older copy of ``writes``."""
        return self.writes - before
