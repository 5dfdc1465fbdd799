"""Opens new connections all the time from a Pod of a user or from a device, and records the result of each."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e.cluster import Cluster, Object
from tests.e2e.testbed.isolation import only_child, spawn
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import pod

RATE = 20  # connections a second
SLOW = 1.0  # seconds; a slower connection has lost a packet, which was sent again

_PROGRAM = Path(__file__).parent / "knocker.py"
_MOMENT = 0.5  # seconds
_END = 30.0  # seconds for the last connection


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to connect to *target*. *at* is its start, in seconds since the epoch.

    *took* is its duration in seconds. *error* is empty if the attempt succeeded.
    """

    at: float
    took: float
    target: str
    error: str


class Load:
    """A program that opens new connections all the time, to several targets in turn."""

    def __init__(self, output: Callable[[], str], stop: Callable[[], None]) -> None:
        """*output* returns the lines that the program has printed. *stop* ends it after its last connection."""
        self._output = output
        self._stop = stop
        self._all: list[Attempt] = []

    @classmethod
    @contextmanager
    def on(
        cls, cluster: Cluster, namespace: str, words: str, targets: Sequence[str], rate: float = RATE
    ) -> Iterator["Load"]:
        """Run a Load with *rate* connections a second in a Pod during the block.

        The block starts once each of *targets* (see `knocker`) answers with *words*.
        """
        command = ["python3", "-c", _PROGRAM.read_text(), str(rate), words, *targets]
        made = pod(namespace, "load", {"command": command})
        made["spec"]["restartPolicy"] = "Never"
        cluster.apply(made)
        output = partial(cluster.bed.kubectl, "-n", namespace, "logs", "load")
        with cls(output, partial(_stop_in, cluster, made))._running(targets) as load:
            yield load
        cluster.delete("pod", "load", namespace)

    @classmethod
    @contextmanager
    def from_device(cls, device: Peer, words: str, targets: Sequence[str], rate: float = RATE) -> Iterator["Load"]:
        """Run a Load on the machine of *device* during the block. The rest is as for `on`."""
        device.ask_magic_dns()
        argv: list[str | Path] = [sys.executable, _PROGRAM, str(rate), words, *targets]
        with TemporaryDirectory() as folder:
            log = Path(folder) / "load"
            process = only_child(spawn(device.machine.command(argv), log), log)
            with cls(log.read_text, partial(process.end, _END))._running(targets) as load:
                yield load

    @contextmanager
    def _running(self, targets: Sequence[str]) -> Iterator["Load"]:
        try:
            eventually(
                lambda: {each.target for each in self.seen() if not each.error} == set(targets), "answers of all"
            )
            yield self
        finally:
            self.end()

    def seen(self) -> list[Attempt]:
        """Return the finished attempts, in the order of their start.

        After the end of the load these are all attempts.
        """
        return self._all or self._read()

    def since(self, moment: float, until: float = float("inf")) -> "Outcome":
        """Return the outcome of the attempts that started between two moments, in seconds since the epoch."""
        return Outcome([each for each in self.seen() if moment <= each.at < until])

    def end(self) -> None:
        """Stop the load, and wait for its last connection. Do nothing if the load has ended before."""
        if self._all:
            return
        self._stop()
        self._all = self._read()

    def _read(self) -> list[Attempt]:
        lines = [line for line in self._output().splitlines(keepends=True) if line.endswith("\n")]
        return sorted((Attempt(**json.loads(line)) for line in lines), key=lambda each: each.at)


def _stop_in(cluster: Cluster, made: Object) -> None:
    """Stop the program of a Load in the Pod *made*."""
    cluster.run_in(made, "kill", "1")
    eventually(lambda: cluster.look(made)["status"]["phase"] == "Succeeded", "the load's end", _END)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the attempts in a span of time."""

    attempts: Sequence[Attempt]

    @property
    def failed(self) -> list[Attempt]:
        """The attempts that failed."""
        return [each for each in self.attempts if each.error]

    @property
    def seconds(self) -> float:
        """The seconds from the start of the first failed attempt to the start of the last one."""
        return self.failed[-1].at - self.failed[0].at if self.failed else 0.0

    @property
    def moments(self) -> int:
        """The number of moments at which attempts failed.

        Attempts that began shortly after each other share a moment.
        """
        starts = [each.at for each in self.failed]
        return len(starts) and 1 + sum(later - earlier > _MOMENT for earlier, later in pairwise(starts))

    def __str__(self) -> str:
        start = self.attempts[0].at if self.attempts else 0.0
        slow = [each for each in self.attempts if not each.error and each.took >= SLOW]
        slowest = max((each.took for each in self.attempts if not each.error), default=0.0)
        lines = [
            f"{len(self.attempts)} connections, {len(self.failed)} failed within {self.seconds:.1f} s, "
            f"{len(slow)} took {SLOW:g} s or more, the slowest {slowest:.2f} s"
        ]
        if slow:
            lines.append(f"slow ones began from {slow[0].at - start:.1f} s to {slow[-1].at - start:.1f} s")
        counts = Counter((each.target, each.error) for each in self.failed)
        for (target, error), count in counts.most_common(10):
            first = next(each.at for each in self.failed if (each.target, each.error) == (target, error))
            lines.append(f"{count} x {target}: {error}, first at {first - start:.1f} s")
        return "\n  ".join(lines)
