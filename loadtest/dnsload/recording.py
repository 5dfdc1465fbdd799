"""The results of a run by second, time window and step of the rate, and in total.

A time window is one row at any rate of queries, so the memory of a recording doesn't grow with the rate.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dnsload.schedule import SECOND
from dnsload.tally import Counts, Tally

PERCENTS = (50.0, 90.0, 99.0, 99.9, 99.99)
_BUSY = 0.95
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one stretch of the run, from *start* to *end* in seconds after the run's beginning."""

    start: float
    end: float
    counts: Counts
    percentiles: tuple[float, ...]
    """The latencies of all queries at the percentiles PERCENTS, in nanoseconds."""
    largest: float
    lag: float
    """The 99th percentile of the time by which queries were sent late, in nanoseconds."""
    cpu: float
    """The number of CPU cores that the client used."""
    memory: int
    """The resident memory of the client, in bytes."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The number of a run's steps, the length of each in seconds, and the time-out of a query in seconds."""

    count: int
    seconds: int
    timeout: float


@dataclass(slots=True)
class _Stretch:
    start: int
    cpu: float
    tally: Tally


class Recording:
    """Collects the results of a run. Engines count in *tally*, and call `turn` every second."""

    def __init__(self, window_seconds: int, watch: Callable[[Row], None], layout: Steps) -> None:
        self._window_seconds = window_seconds
        self._layout = layout
        self._watch = watch
        self.cpu_seconds: Callable[[], float] = time.process_time
        """A function that returns the CPU time that the client has used so far."""
        self._cpu_began = 0.0
        self._start = 0
        self._second = self._window = _Stretch(0, 0.0, Tally())
        self.tally = self._second.tally
        """The tally of the current second."""
        self.total = Tally()
        self.steps = [Tally() for _ in range(layout.count)]
        self.rows: list[Row] = []
        self.busy_seconds = 0
        self.seconds = 0

    def begin(self, now: int) -> None:
        """Begin the recording at the time *now*."""
        cpu = self.cpu_seconds()
        self._start, self._cpu_began = now, cpu
        self._second, self._window = _Stretch(now, cpu, self.tally), _Stretch(now, cpu, Tally())

    @property
    def timeout(self) -> int:
        """The time-out of a query in nanoseconds."""
        return round(self._layout.timeout * SECOND)

    @property
    def next_turn(self) -> int:
        """The time at which the engine has to call `turn` next."""
        return self._start + (self.seconds + 1) * SECOND

    def turn(self, now: int) -> None:
        """End the current second, and the current window if it is full."""
        row = self._row(self._second, now)
        self._watch(row)
        self.busy_seconds += row.cpu >= _BUSY
        self._end_second(now)
        if self.seconds % self._window_seconds == 0:
            self._end_window(now)

    def _end_second(self, now: int) -> None:
        self._second.tally.flush()
        self._window.tally.add(self._second.tally)
        self._add_to_steps(self._second.tally)
        self.seconds += 1
        self._second = _Stretch(now, self.cpu_seconds(), Tally())
        self.tally = self._second.tally

    def end(self, now: int) -> None:
        """End the recording at the time *now*."""
        self._end_second(now)
        short = now - self._window.start < self._window_seconds * SECOND // 2
        if short and self.rows:  # so short a window would have meaningless rates
            self.rows[-1].counts.accumulate(self._window.tally)
            self.total.add(self._window.tally)
        else:
            self._end_window(now)

    def _add_to_steps(self, tally: Tally) -> None:
        """Add the counts of a second to its step of the rate.

        Lost and late queries were sent a time-out earlier, so they are added to the step of that time.
        """
        now, before = self._step(self.seconds), self._step(self.seconds - self._layout.timeout)
        now.add(tally)
        for count in ("lost", "late"):
            setattr(now, count, getattr(now, count) - getattr(tally, count))
            setattr(before, count, getattr(before, count) + getattr(tally, count))

    def _step(self, seconds: float) -> Tally:
        number = int(max(seconds, 0) // self._layout.seconds)
        return self.steps[min(number, len(self.steps) - 1)]

    @property
    def elapsed(self) -> float:
        """The number of recorded seconds."""
        return self.rows[-1].end if self.rows else 0.0

    @property
    def cpu(self) -> float:
        """The number of cores that the client used on average."""
        return (self.cpu_seconds() - self._cpu_began) / self.elapsed if self.elapsed else 0.0

    def _end_window(self, now: int) -> None:
        row = self._row(self._window, now)
        self.total.add(self._window.tally)
        self.rows.append(row)
        self._window = _Stretch(now, self.cpu_seconds(), Tally())

    def _row(self, stretch: _Stretch, now: int) -> Row:
        stretch.tally.flush()
        latency = stretch.tally.latency_of_all(self.timeout)
        seconds = max((now - stretch.start) / SECOND, 1e-9)
        return Row(
            start=(stretch.start - self._start) / SECOND,
            end=(now - self._start) / SECOND,
            counts=Counts().accumulate(stretch.tally),
            percentiles=tuple(latency.percentiles(PERCENTS)),
            largest=float(latency.largest),
            lag=stretch.tally.lag.percentiles([99.0])[0],
            cpu=(self.cpu_seconds() - stretch.cpu) / seconds,
            memory=resident_bytes(),
        )


def resident_bytes() -> int:
    """Return this process's resident memory in bytes.

    If the system doesn't tell the present value, return the highest one so far.
    """
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
