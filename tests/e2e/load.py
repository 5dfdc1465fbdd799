"""Opens new connections all the time from a Pod of a user, and records the result of each."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import Cluster, Object
from tests.e2e.waiting import eventually
from tests.e2e.workloads import pod

RATE = 20  # connections a second
SLOW = 1.0  # seconds: a packet was lost and sent again

_PROGRAM = Path(__file__).parent / "knocker.py"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A connection: when it began in seconds since the epoch, how many seconds it took, and what went wrong."""

    at: float
    took: float
    target: str
    error: str


class Load:
    """A Pod that opens new connections all the time, to several targets in turn."""

    def __init__(self, cluster: Cluster, pod: Object) -> None:
        self._cluster = cluster
        self._pod = pod
        self._all: list[Attempt] = []

    @classmethod
    @contextmanager
    def on(
        cls, cluster: Cluster, namespace: str, words: str, targets: Sequence[str], rate: float = RATE
    ) -> Iterator["Load"]:
        """Run a Load during the block, which makes *rate* connections a second.

        The block starts once each of *targets* (see `knocker`) answers with *words*.
        """
        command = ["python3", "-c", _PROGRAM.read_text(), str(rate), words, *targets]
        made = pod(namespace, "load", {"command": command})
        made["spec"]["restartPolicy"] = "Never"
        cluster.apply(made)
        load = cls(cluster, made)
        eventually(lambda: {each.target for each in load.seen() if not each.error} == set(targets), "answers of all")
        try:
            yield load
        finally:
            load.end()

    def seen(self) -> list[Attempt]:
        """Return the attempts that have ended, in the order of their start.

        After the end of the load these are all attempts.
        """
        return self._all or self._read()

    def since(self, moment: float, until: float = float("inf")) -> "Outcome":
        """Return the outcome of the attempts that started between two moments, in seconds since the epoch."""
        return Outcome([each for each in self.seen() if moment <= each.at < until])

    def end(self) -> None:
        """Stop the load, wait for its last connection, and delete its Pod. Do nothing if the load has ended before."""
        if self._all:
            return
        self._cluster.run_in(self._pod, "kill", "1")
        eventually(lambda: self._cluster.look(self._pod)["status"]["phase"] == "Succeeded", "the load's end", 30)
        self._all = self._read()
        metadata = self._pod["metadata"]
        self._cluster.delete("pod", metadata["name"], metadata["namespace"])

    def _read(self) -> list[Attempt]:
        metadata = self._pod["metadata"]
        log = self._cluster.bed.kubectl("-n", metadata["namespace"], "logs", metadata["name"])
        lines = [line for line in log.splitlines(keepends=True) if line.endswith("\n")]
        return sorted((Attempt(**json.loads(line)) for line in lines), key=lambda each: each.at)


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

    def __str__(self) -> str:
        slow = [each for each in self.attempts if not each.error and each.took >= SLOW]
        slowest = max((each.took for each in self.attempts if not each.error), default=0.0)
        lines = [
            f"{len(self.attempts)} connections, {len(self.failed)} failed within {self.seconds:.1f} s, "
            f"{len(slow)} took {SLOW:g} s or more, the slowest {slowest:.2f} s"
        ]
        start = self.attempts[0].at if self.attempts else 0.0
        counts = Counter((each.target, each.error) for each in self.failed)
        for (target, error), count in counts.most_common(10):
            first = next(each.at for each in self.failed if (each.target, each.error) == (target, error))
            lines.append(f"{count} x {target}: {error}, first at {first - start:.1f} s")
        return "\n  ".join(lines)
