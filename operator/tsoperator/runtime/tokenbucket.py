"""A limit that lets some through at once, and then one every so often."""


class TokenBucket:
    """Holds tokens that come back one every *interval* seconds; *now* is of any clock that never goes back.

    How many it holds at most is said at each look: a bucket that may hold more than before is not filled up by that.
    """

    def __init__(self, interval: float, size: int, now: float) -> None:
        """Start full, with *size* tokens."""
        self._interval = interval
        self._tokens = float(size)
        self._counted = now

    def wait(self, size: int, now: float) -> float:
        """Return the seconds until there is a token in the bucket of *size*, 0 if there is one."""
        self._tokens = min(size, self._tokens + (now - self._counted) / self._interval)
        self._counted = now
        return max(0.0, (1 - self._tokens) * self._interval)

    def take(self) -> None:
        """Take a token, which `wait` has found."""
        self._tokens -= 1
