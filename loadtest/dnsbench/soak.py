"""A soak: a long run of our server under load, reloads and hostile packets. It must lose nothing and leak nothing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dnsload.client import Load, Seen, steady

from dnsbench.bench import Bench, Writer
from dnsbench.client import read_reports
from dnsbench.goals import Verdict
from dnsbench.process import Server
from dnsbench.progress import Progress
from dnsbench.queries import Hostile, Mix, addresses
from dnsbench.records import Changes
from dnsbench.scenarios import SMALL
from dnsbench.servers import Kind

RATE = 20_000
HOSTILITY = 0.05
_SAY_SECONDS = 30
_SETTLED_SECONDS = 10
"""The first seconds, in which memory isn't judged, because the server loads code and data for the first time."""
_MOST_GROWTH_MB = 3.0


@dataclass(slots=True)
class Watch:
    """Writes a change every second, records the server's memory, and prints progress."""

    writer: Writer
    server: Server
    progress: Progress
    memory: list[float] = field(default_factory=list)
    """The server's memory in megabytes, one value per second."""

    def tick(self, reports: Path) -> None:
        """Write a change, record the memory, and sometimes print the progress.

        The client calls this method every second.
        """
        self.writer.write()
        self.memory.append(self.server.rss_bytes / 1e6)
        if len(self.memory) % _SAY_SECONDS == 0:
            seen = read_reports(reports).tally
            self.progress.say(
                f"  {seen.sent:,} sent, {seen.lost} lost, {seen.wrong} wrong, {seen.malformed_sent:,} hostile,"
                f" {self.writer.served} changes served, {self.memory[-1]:.1f} MB"
            )


@dataclass(frozen=True, slots=True)
class Soaked:
    """The results of a soak."""

    seen: Seen
    changes: int
    served: int
    """The number of changes that the server served within a second."""
    cpu_us: float
    memory: Sequence[float]


def mix(*, raw: bool) -> Mix:
    """Return the mix of queries of a soak: hits, misses, and hostile packets of all sorts.

    If *raw* is false, there are no packets from the source port 0, because only raw sockets can send such packets.
    """
    sorts = tuple(sort for sort in Hostile if raw or sort is not Hostile.PORTLESS)
    return Mix(SMALL, misses=0.1, hostile=sorts, hostility=HOSTILITY)


def soak(bench: Bench, minutes: float, rate: int = RATE) -> Soaked:
    """Run our server for *minutes* under a load of *rate* packets a second; raises BenchError."""
    load = Load(60 * minutes, rates=steady(rate), every=5)
    sent = mix(raw=os.geteuid() == 0)
    bench.progress.say(
        f"soak: {rate:,} packets a second for {minutes:g} minutes, a change a second,"
        f" {sent.hostility:.0%} hostile packets: {', '.join(sent.hostile)}"
    )
    with bench.serve(Kind.OURS, sent.names) as (server, folder):
        watch = Watch(Writer(Changes.of(folder, addresses(sent.names)), server.port), server, bench.progress)
        before = server.cpu_seconds
        seen = bench.client.run(bench.queries(sent), server.port, load, watch.tick)
        spent = server.cpu_seconds - before
    changes = watch.writer.changes.made
    packets = max(1, seen.tally.answered + seen.tally.malformed_sent)
    return Soaked(seen, changes, watch.writer.served, 1e6 * spent / packets, watch.memory)


def verdicts(soaked: Soaked) -> list[Verdict]:
    """Return the verdicts on a soak (pure).

    Answers that the kernel dropped at the client's socket don't count as lost.
    """
    seen = soaked.seen.tally
    return [
        Verdict("queries lost by the server, of a million", 1.0, "", 1e6 * seen.loss),
        Verdict("wrong answers", 0, "", seen.wrong),
        Verdict("changes not served within a second, of a hundred", 1.0, "", _unserved(soaked)),
        Verdict("memory gained from the first minute to the last", _MOST_GROWTH_MB, "MB", growth(soaked.memory)),
        Verdict("memory gained an hour, by the slope", 20.0, "MB", slope(soaked.memory) * 3600),
    ]


def _unserved(soaked: Soaked) -> float:
    looked_for = max(1, soaked.changes - 1)  # each `write` checks the change before; none comes after the last change
    return 100 * (looked_for - soaked.served) / looked_for


def growth(memory: Sequence[float]) -> float | None:
    """Return the average memory of the last minute minus that of the first minute, in megabytes.

    The first `_SETTLED_SECONDS` are left out. In a short run, both periods are shorter than a minute. The result is
    None if the run is too short for that.
    """
    settled = memory[_SETTLED_SECONDS:]
    minute = min(60, len(settled) // 3)
    if not minute:
        return None
    return (sum(settled[-minute:]) - sum(settled[:minute])) / minute


def slope(memory: Sequence[float]) -> float:
    """Return the growth of the memory in the second half of a run, in megabytes per second, by least squares."""
    late = memory[len(memory) // 2 :]
    if len(late) < 2:
        return 0.0
    middle, mean = (len(late) - 1) / 2, sum(late) / len(late)
    spread = sum((second - middle) ** 2 for second in range(len(late)))
    return sum((second - middle) * (value - mean) for second, value in enumerate(late)) / spread
