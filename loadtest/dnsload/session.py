"""What both engines share: what to ask, when, whom, and where results go."""

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
"""A client that lags at the end of the schedule may still send for so long."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run, of either engine."""

    workload: Workload
    checker: Checker
    pacing: Callable[[int], Pacing]
    """Makes the pacing that starts at a time of the monotonic clock."""
    recording: Recording
    timeout: float
    """Seconds."""
    retry: bool = False
    """Whether truncated answers are asked for again by TCP."""

    @property
    def timeout_ns(self) -> int:
        """Return the time-out in nanoseconds."""
        return round(self.timeout * SECOND)

    def exchange(self, target: Target) -> Exchange:
        """Return an exchange for a new socket or connection to *target*."""
        return Exchange(target, self.workload.pool, self.checker, self.timeout_ns)


def over(pacing: Pacing, exchanges: Iterable[Exchange], now: int) -> bool:
    """Tell whether all has been sent, and answered or given up."""
    return sending_over(pacing, now) and not any(exchange.outstanding for exchange in exchanges)


def sending_over(pacing: Pacing, now: int) -> bool:
    """Tell whether nothing will be sent any more."""
    return now >= pacing.ends + _GRACE or (now >= pacing.ends and pacing.next_due() is None)
