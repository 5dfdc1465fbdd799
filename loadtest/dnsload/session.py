"""The parts of a run that both engines share: its queries, its pace, and the recording of its results."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dnsload.checking import Checker
from dnsload.exchange import Exchange
from dnsload.recording import Recording
from dnsload.schedule import SECOND, Pacing
from dnsload.targets import Target
from dnsload.workload import Workload

clock = time.monotonic_ns
_GRACE = SECOND // 5
"""The nanoseconds after the end of the schedule in which a client that is late still sends."""


@dataclass(frozen=True, slots=True)
class Session:
    """The parts of one run that don't depend on which of the two engines sends the queries."""

    workload: Workload
    checker: Checker
    pacing: Callable[[int], Pacing]
    """A function that makes the pacing of a run. Its argument is the start, by the monotonic clock."""
    recording: Recording
    timeout: float
    """Seconds after which a query without an answer is lost."""
    retry: bool = False
    """True if a query is repeated by TCP after a truncated answer."""
    source: str = ""
    """The address from which the queries are sent. With "", the system chooses it."""

    @property
    def local(self) -> tuple[str, int] | None:
        """The local address of a TCP connection, with any port (0); None if the system chooses the address."""
        return (self.source, 0) if self.source else None

    @property
    def timeout_ns(self) -> int:
        """The time-out in nanoseconds."""
        return round(self.timeout * SECOND)

    def exchange(self, target: Target) -> Exchange:
        """Return an exchange for a new socket or connection to *target*."""
        return Exchange(target, self.workload.pool, self.checker, self.timeout_ns)


def over(pacing: Pacing, exchanges: Iterable[Exchange], now: int) -> bool:
    """Tell whether the run is over *now*: the sending is over, and no query is outstanding."""
    return sending_over(pacing, now) and not any(exchange.outstanding for exchange in exchanges)


def sending_over(pacing: Pacing, now: int) -> bool:
    """Tell whether the sending is over *now*: its time has ended, and each due query was sent or is too late."""
    return now >= pacing.ends + _GRACE or (now >= pacing.ends and pacing.next_due() is None)
