"""The engine for high rates: it runs compiled clients as processes, and adds up their reports every second."""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path

from dnsload.client import IDS, JUNK, Load, Query, Seen
from dnsload.errors import ClientError
from dnsload.schedule import SECOND
from dnsload.session import Session, clock
from dnsload.tally import Counts
from dnsload.targets import Target
from dnsload.workload import Asked

_FEWEST = 1 << 14
_ROUNDS = 3
"""The length of the random list of queries for each client, as a multiple of the pool.

When a client has sent the whole list, it begins again.
"""
_FULL = 0.75
"""The share of a socket's message IDs that can be in use at the same time."""


def query(asked: Asked) -> Query:
    """Return *asked* in the form that a compiled client reads."""
    if asked.question is None:
        return Query(b"\xff\xff" + asked.packet, JUNK)
    addresses = asked.expected.addresses
    packed = None if addresses is None else [ip_address(address).packed for address in addresses]
    return Query(b"\0\0" + asked.packet, rcode=asked.expected.rcode, addresses=packed)


def shared(load: Load, count: int) -> list[Load]:
    """Divide *load* among *count* clients, each with enough sockets for the queries that it has outstanding."""
    rates = tuple((first / count, last / count) for first, last in load.rates)
    fastest = max((max(pair) for pair in rates), default=0.0)
    shares = []
    for number in range(count):
        outstanding = load.outstanding // count + (number < load.outstanding % count)
        under_way = fastest * load.patience if rates else outstanding
        sockets = max(load.sockets, -int(-under_way // (IDS * _FULL)))
        if rates or outstanding:
            shares.append(replace(load, rates=rates, outstanding=outstanding, sockets=sockets))
    return shares


@dataclass(slots=True)
class _Worker:
    """The process of a compiled client while it runs."""

    target: Target
    places: Sequence[int]
    """The positions in the run's pool of the queries that this client sends."""
    process: "subprocess.Popen[bytes]"
    totals: Counts = field(default_factory=Counts)
    ended: bool = False
    sending_seconds: float = 0.0
    busy_seconds: float = 0.0
    """The seconds for which the client was busy since its previous report."""

    def report(self) -> Seen:
        """Wait for the next report, and return it. Raises ClientError."""
        line = self.process.stdout.readline() if self.process.stdout else b""
        if not line.endswith(b"\n"):
            said = self.process.stderr.read().decode().strip() if self.process.stderr else ""
            raise ClientError(f"the compiled client ended with code {self.process.wait()}: {said}")
        seen = Seen.parse(line)
        self.ended = seen.last
        self.busy_seconds = seen.seconds - self.sending_seconds - seen.idle_seconds
        self.sending_seconds = seen.seconds
        self.totals.accumulate(seen.tally)
        return seen


class CompiledEngine:
    """The engine: runs compiled clients until all of them have ended, or until `stop`."""

    def __init__(self, session: Session, targets: Sequence[Target], loads: Sequence[Load], program: Path) -> None:
        """Give each of *loads* to one client. The clients are assigned to the *targets* in turn."""
        self._session = session
        self._recording = session.recording
        self._queries = [query(asked).encode() for asked in session.workload.pool]
        self._program = program
        self.stopped = False
        self._asked = [(targets[number % len(targets)], load) for number, load in enumerate(loads)]
        self.exchanges: list[_Worker] = []
        self._busy = 0.0
        self._reasons: Counter[str] = Counter()

    def run(self) -> None:
        """Run the clients until all have ended. Raises ClientError."""
        with ExitStack() as stack:
            self.exchanges += [stack.enter_context(self._client(target, load)) for target, load in self._asked]
            start = now = clock()
            self._recording.cpu_seconds = lambda: self._busy
            self._recording.begin(start)
            if self.stopped:
                self.stop()
            while running := [worker for worker in self.exchanges if not worker.ended]:
                reports = [worker.report() for worker in running]
                now = start + round(max(seen.elapsed for seen in reports) * SECOND)
                self._gather(running, reports)
                if not all(worker.ended for worker in self.exchanges):
                    self._recording.turn(now)
            self._recording.end(now)
        self._session.checker.reasons = self._reasons

    def stop(self) -> None:
        """End the run early. The recording has the results until then."""
        self.stopped = True
        for worker in self.exchanges:
            worker.process.send_signal(signal.SIGTERM)

    @contextmanager
    def _client(self, target: Target, load: Load) -> Iterator[_Worker]:
        """Run one client. It begins to send when it has read all its queries."""
        workload = self._session.workload
        count = workload.questions if workload.is_in_order else max(_FEWEST, _ROUNDS * len(self._queries))
        places = workload.choose(count)
        pipe = subprocess.PIPE
        words = [str(self._program), *load.words(*target)]
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603 - our own words
            try:
                _tell(process, b"".join(self._queries[place] for place in places))
                yield _Worker(target, places, process)
            finally:
                process.kill()

    def _gather(self, workers: Sequence[_Worker], reports: Sequence[Seen]) -> None:
        """Add the *reports* about one second to the recording, and count the CPU time of the busiest of *workers*."""
        for worker, seen in zip(workers, reports, strict=True):
            self._recording.tally.add(seen.tally)
            self._reasons.update(seen.reasons)
            for number, answer in seen.examples:
                self._session.checker.judge(worker.places[number], answer[2:])
        self._busy += max(worker.busy_seconds for worker in workers)


def _tell(process: "subprocess.Popen[bytes]", queries: bytes) -> None:
    """Write *queries* to *process*, which reads all of them before it begins."""
    if process.stdin:
        with suppress(BrokenPipeError), process.stdin:  # the process has ended, and its report says why
            process.stdin.write(queries)
