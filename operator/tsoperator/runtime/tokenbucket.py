"""A rate limit that allows a burst, and then one action per interval."""


class TokenBucket:
    """Holds tokens, of which one comes back every *interval* seconds.

    *now* is the time of any clock that never goes back. Each call of `wait` gives the size of the bucket, which is the
    most tokens that it holds. A larger size than before adds no tokens at once.
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
        """Take a token. Call `wait` first, to see that there is one."""
        self._tokens -= 1
