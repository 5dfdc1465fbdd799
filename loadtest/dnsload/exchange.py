"""The outstanding queries of one socket or connection, by message ID: the packet of each, its times and its result.

Queries get message IDs in turn. An ID is used again only after all other IDs, and only when all older IDs are free. So
no two outstanding queries share an ID, and the IDs in use are always consecutive.
"""

from array import array
from collections.abc import Callable, Sequence

from dnsload.checking import Checker, Fate
from dnsload.tally import Counts, Tally
from dnsload.targets import Target
from dnsload.workload import Asked

IDS = 1 << 16
_MASK = IDS - 1
_FREE, _WAITING, _EXPIRED = 0, 1, 2


class Exchange:
    """Gives each query a message ID, and finds the query of each answer by this ID."""

    def __init__(self, target: Target, pool: Sequence[Asked], checker: Checker, timeout_ns: int) -> None:
        self.target = target
        self.totals = Counts()
        self.outstanding = 0
        self.retry: Callable[[int, bytes], None] | None = None
        """A function that repeats a query by TCP after a truncated answer.

        The arguments are the ID, and the query without the ID.
        """
        self._pool = pool
        self._checker = checker
        self._timeout = timeout_ns
        self._states = bytearray(IDS)
        self._places = array("i", bytes(4 * IDS))
        self._intended = array("q", bytes(8 * IDS))
        self._sent = array("q", bytes(8 * IDS))
        self._head = self._tail = 0

    @property
    def room(self) -> int:
        """The number of further queries that can be outstanding."""
        return IDS - (self._head - self._tail)

    @property
    def next_id(self) -> int:
        """The message ID of the query that will be sent next."""
        return self._head & _MASK

    def open(self, places: Sequence[int], intended: Sequence[int], now: int, tally: Tally) -> None:
        """Record that queries are sent *now*, with consecutive IDs from `next_id` on.

        *places* are the positions of the queries in the pool, and *intended* their due times.
        """
        malformed = 0
        for place, meant in zip(places, intended, strict=True):
            number = self._head & _MASK
            self._head += 1
            self._states[number] = _WAITING
            self._places[number] = place
            self._intended[number] = meant
            self._sent[number] = now
            tally.lags.append(now - meant)
            malformed += self._pool[place].question is None
        self.outstanding += len(places)
        for counts in (tally, self.totals):
            counts.malformed_sent += malformed
            counts.sent += len(places) - malformed

    def close(self, tally: Tally, number: int, answer: bytes, received: int, *, again: bool = False) -> None:
        """Record the *answer*, without its ID, to the query with the ID *number*.

        *received* is the time at which the answer came. *again* is True if the query was repeated by TCP.
        """
        state = self._states[number]
        place = self._places[number]
        if state == _FREE:
            tally.unexpected += 1
            return
        if self._pool[place].question is None:
            tally.malformed_answered += 1
            self._free(number)
            return
        verdict = self._checker.judge(place, answer)
        if verdict.fate is Fate.FOREIGN:
            tally.unexpected += 1
            return
        if state == _WAITING and received - self._sent[number] > self._timeout:
            self._lose(number, tally)
            state = self._states[number] = _EXPIRED
        fate = verdict.fate
        if fate is Fate.TRUNCATED and state == _WAITING and self.retry and not again:
            tally.retried += 1
            self.retry(number, self._pool[place].packet)
            return
        if fate is Fate.TRUNCATED and again:
            self._checker.reasons["truncated"] += 1
            fate = Fate.WRONG
        self._free(number)
        tally.latencies.append(max(received, self._sent[number]) - self._intended[number])
        if state == _EXPIRED:
            tally.late += 1
            self.totals.late += 1
            return
        tally.rcodes[verdict.rcode] += 1
        if fate is Fate.RIGHT:
            tally.right += 1
            self.totals.right += 1
        elif fate is Fate.TRUNCATED:
            tally.truncated += 1
            self.totals.truncated += 1
        else:
            tally.wrong += 1
            self.totals.wrong += 1

    def _free(self, number: int) -> None:
        if self._states[number] == _WAITING:
            self.outstanding -= 1
        self._states[number] = _FREE

    def expire(self, now: int, tally: Tally) -> None:
        """Count each outstanding query as lost if its time-out is over *now*."""
        before = now - self._timeout
        while self._tail < self._head:
            number = self._tail & _MASK
            if self._states[number] == _WAITING:
                if self._sent[number] > before:
                    return
                self._lose(number, tally)
                self._states[number] = _EXPIRED
            self._tail += 1

    def abandon(self, tally: Tally) -> None:
        """Count all outstanding queries as lost, because their connection has ended."""
        while self._tail < self._head:
            number = self._tail & _MASK
            if self._states[number] == _WAITING:
                self._lose(number, tally)
            self._states[number] = _FREE
            self._tail += 1

    def _lose(self, number: int, tally: Tally) -> None:
        self.outstanding -= 1
        if self._pool[self._places[number]].question is not None:
            tally.lost += 1
            self.totals.lost += 1
