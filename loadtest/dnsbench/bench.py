"""Carries out scenarios: starts the servers, measures them in turn, and stops them."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dnsload.client import encoded

from dnsbench.attacks import Attack, attacked
from dnsbench.client import Client
from dnsbench.dnsperf import Dnsperf
from dnsbench.errors import BenchError
from dnsbench.lonely import in_a_lonely_network
from dnsbench.measure import Row, Sample, best, sample
from dnsbench.process import Server
from dnsbench.progress import Progress
from dnsbench.queries import Mix, addresses, hit, make, text
from dnsbench.records import Changes
from dnsbench.scenarios import Contestant, Scenario, Writes
from dnsbench.servers import Installed, Kind, answers
from dnsbench.victims import pinned, watch

_SETTLE_SECONDS = 10
_PLAIN = str.maketrans("", "", " /(),<>:'")


@dataclass(frozen=True, slots=True)
class Bench:
    """The programs, cores and folder that a measurement needs."""

    installed: Installed
    client: Client
    core: int
    """The number of the CPU core on which the servers run. The client has another core."""
    folder: Path
    progress: Progress
    dnsperf: Dnsperf | None = None
    warm_seconds: float = 0.3

    def queries(self, mix: Mix) -> Path:
        """Return the path of the client's file with the queries of *mix*. Write the file first if it doesn't exist."""
        path = self.folder / f"{'-'.join(map(str, mix))}.queries".translate(_PLAIN)
        if not path.exists():
            path.write_bytes(b"".join(encoded(make(mix))))
        return path

    def names(self, mix: Mix) -> Path:
        """Return the path of dnsperf's file with the queries of *mix*. Write the file first if it doesn't exist."""
        path = self.queries(mix).with_suffix(".names")
        if not path.exists():
            path.write_text("".join(map(text, make(mix))))
        return path

    @contextmanager
    def serve(self, kind: Kind, names: int) -> Iterator[tuple[Server, Path]]:
        """Run a server of *kind* until the end of the block; yield the server and its folder.

        *names* is the number of names that it serves.
        """
        folder = self.folder / f"{kind}-{names}".lower().replace("/", "-")
        folder.mkdir()
        with self.installed.serve(kind, names, folder, self.core) as server:
            yield server, folder
        shutil.rmtree(folder)

    def run(self, scenario: Scenario) -> list[Row]:
        """Measure the contestants of *scenario* in turn, in each round. Return a row for each contestant.

        Raises BenchError.
        """
        if scenario.attack is Attack.GONE:
            return in_a_lonely_network(lambda: self._run(scenario))
        return self._run(scenario)

    def _run(self, scenario: Scenario) -> list[Row]:
        self.progress.say(f"{scenario.title}: {', '.join(each.label for each in scenario.contestants)}")
        rounds: dict[str, list[Sample]] = {each.label: [] for each in scenario.contestants}
        with ExitStack() as stack:
            running = self._start_all(scenario, stack)
            for contestant in scenario.contestants:
                self._warm(scenario, contestant, running[contestant.label][0])
            for number in range(scenario.rounds):
                for contestant in scenario.contestants:
                    seen = self._measure(scenario, contestant, *running[contestant.label])
                    rounds[contestant.label].append(seen)
                self.progress.say(f"  round {number + 1} of {scenario.rounds}: {_shortly(rounds)}")
        return [
            Row(scenario=scenario.name, label=label, best=best(all_), rounds=all_) for label, all_ in rounds.items()
        ]

    def _start_all(self, scenario: Scenario, stack: ExitStack) -> dict[str, tuple[Server, Path]]:
        """Start the servers of *scenario*, which run until *stack* is closed.

        Contestants with the same kind of server and the same number of names share a server. Return the server and the
        folder of each contestant, by its label.
        """
        servers: dict[tuple[Kind, int], tuple[Server, Path]] = {}
        for contestant in scenario.contestants:
            key = contestant.kind, contestant.mix.names
            if key not in servers:
                servers[key] = stack.enter_context(self.serve(*key))
        return {each.label: servers[each.kind, each.mix.names] for each in scenario.contestants}

    def _warm(self, scenario: Scenario, contestant: Contestant, server: Server) -> None:
        self.client.run(self.queries(contestant.mix), server.port, replace(scenario.load, seconds=self.warm_seconds))

    def _measure(self, scenario: Scenario, contestant: Contestant, server: Server, folder: Path) -> Sample:
        if scenario.attack and contestant.victim:
            query = hit(*next(iter(addresses(contestant.mix.names).items())))
            with attacked(scenario.attack, server.port, self.client.core), pinned(self.client.core):
                seen = watch(contestant.victim, query, server.port, folder / "log", scenario.load.seconds)
            return sample(seen, 0.0, server.rss_bytes)
        writer = self._writer(contestant, server, folder)
        before = server.cpu_seconds
        if scenario.by_dnsperf and self.dnsperf:
            seen = self.dnsperf.run(self.names(contestant.mix), server.port, scenario.load)
        else:
            tick = writer.write if writer else None
            seen = self.client.run(self.queries(contestant.mix), server.port, scenario.load, tick)
        spent = server.cpu_seconds - before
        if writer and contestant.writes is Writes.SERVED:
            writer.settle()
        return sample(seen, spent, server.rss_bytes, writer.served if writer else 0)

    def _writer(self, contestant: Contestant, server: Server, folder: Path) -> "Writer | None":
        if contestant.writes is Writes.NONE:
            return None
        names = addresses(contestant.mix.names)
        return Writer(Changes.of(folder if contestant.writes is Writes.SERVED else self.folder, names), server.port)


@dataclass(slots=True)
class Writer:
    """Changes a record at each `write`. At the next `write`, it counts the change if the server serves it by then."""

    changes: Changes
    port: int
    served: int = 0

    def write(self, _: Path | None = None) -> None:
        """Count the last change if the server serves it now, and make the next change."""
        if self.changes.made and answers(self.port, self.changes.owed):
            self.served += 1
        self.changes.make_one()

    def settle(self) -> None:
        """Wait until the server serves the last change, so that its CPU time isn't part of the next measurement.

        Raises BenchError if this takes too long.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self.changes.made and not answers(self.port, self.changes.owed):
            if time.monotonic() > deadline:
                raise BenchError(f"a change isn't served after {_SETTLE_SECONDS} s")
            time.sleep(0.05)


def _shortly(rounds: Mapping[str, Sequence[Sample]]) -> str:
    return ", ".join(f"{label} {_figure(seen[-1])}" for label, seen in rounds.items())


def _figure(seen: Sample) -> str:
    return f"{seen.cpu_us:.2f} µs" if seen.cpu_us else f"p99 {seen.p99_us / 1000:.1f} ms"
