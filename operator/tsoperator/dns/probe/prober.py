"""Asks the nameserver and the cluster's DNS in the background, and announces changes of the verdicts on them."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import Signal
from tsoperator.dns.probe.answers import (
    ROUNDS,
    Reply,
    ServerVerdict,
    ZoneReplies,
    gives,
    is_of_ours,
    nameserver_verdict,
    steady_verdicts,
    verdict,
)
from tsoperator.dns.probe.asking import AskServer, Query
from tsoperator.dns.probe.question import Canary, CanaryQuestion
from tsoperator.runtime.feeds import Announcer
from tsoperator.runtime.workqueue import Backoff

VERDICT: Final = Signal("Verdict")
"""The signal that announces changes of the verdicts on the nameserver and the cluster's DNS.

The verdicts are no objects of the API server.
"""


class Found(NamedTuple):
    """The verdicts of one round of queries: one on the *nameserver* itself, and those on the *cluster*'s DNS."""

    nameserver: ServerVerdict
    cluster: tuple[ServerVerdict, ...]

    @property
    def faulty(self) -> tuple[bool, ...]:
        """For each verdict, True if it has a fault. The nameserver's verdict comes first."""
        return tuple(bool(each.fault) for each in (self.nameserver, *self.cluster))

    def after(self, shown: "Found | None", before: Sequence["Found"]) -> "Found":
        """Return the verdicts that the status should show after this round of queries.

        *shown* are the verdicts that the status shows now, and *before* has the verdicts of earlier rounds, the newest
        round first.
        """
        if shown is None:
            return self
        (nameserver,) = steady_verdicts([shown.nameserver], [self.nameserver], [[each.nameserver] for each in before])
        return Found(nameserver, steady_verdicts(shown.cluster, self.cluster, [each.cluster for each in before]))


@dataclass(frozen=True, slots=True)
class ProbePace:
    """The pauses between rounds of queries to the nameserver and the cluster's DNS, and the time-outs, in seconds.

    While no verdict has a fault, the pauses are those of *steady*, and otherwise those of *backoff*. Both begin with
    short pauses again after a change, because the cluster's DNS can take a minute to load a new configuration. A pause
    is never shorter than *rest*, because changes in the cluster come in bursts. While the prober needs more rounds to
    confirm a verdict, it pauses only for *rest*. It waits *timeout* seconds for an answer of the cluster's DNS, and
    *direct* seconds for one of the nameserver. It asks for at most *at_once* zones at the same time.
    """

    steady: Backoff = field(default_factory=lambda: Backoff(first=1.0, cap=180.0))
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, cap=8.0))
    rest: float = 1.0
    timeout: float = 5.0
    direct: float = 2.0
    at_once: int = 8


class DNSProber(Collector):
    """A prober that asks the nameserver and the cluster's DNS the current question again and again, while `run` runs.

    No reconcile waits for the answers.
    """

    def __init__(
        self,
        ask: AskServer,
        pace: ProbePace | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(4),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*ask* sends a query. *token* returns a random label, for a name for which nobody has asked before."""
        self._ask = ask
        self._pace = pace or ProbePace()
        self._token = token
        self._clock = clock
        self._question: CanaryQuestion | None = None
        self._shown: Found | None = None
        self._before: deque[Found] = deque(maxlen=ROUNDS - 1)  # the results of the most recent rounds, the newest first
        self._recent: deque[Found] = deque(maxlen=8)  # the verdicts that were shown for the present question
        self._asked_at = 0.0
        self._changed = asyncio.Event()
        self.feed = Announcer(VERDICT)
        """The announcer of changes of the verdicts."""

    def follow(self, question: CanaryQuestion | None) -> Found | None:
        """Ask *question* from now on, at once if it is new; if it is None, ask nothing.

        Return the verdicts that the status should show, or None if there are none yet.
        """
        if question != self._question:
            if question is None or not question.is_same(self._question):
                self._shown = None
            self._question = question
            self._changed.set()
        return self._shown

    async def run(self) -> None:
        """Ask the current question again and again until cancelled."""
        rounds = doubts = 0
        try:
            while True:
                if self._question is None:
                    await self._changed.wait()
                if self._changed.is_set():
                    rounds = 0
                    self._before.clear()
                    self._recent.clear()
                    self._changed.clear()
                if (question := self._question) is None:
                    continue
                found = await self._round(question)
                if self._tell(question, found):
                    rounds = 0
                doubts = doubts + 1 if self._shown and self._shown.faulty != found.faulty else 0
                pause = 0.0
                if not 0 < doubts < ROUNDS:
                    pause = self._pause(found, rounds)
                    rounds += 1
                await asyncio.sleep(self._pace.rest)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
        finally:
            self._question = self._shown = None

    def _pause(self, found: Found, rounds: int) -> float:
        is_well = not any((*found.faulty, *(self._shown.faulty if self._shown else ())))
        return (self._pace.steady if is_well else self._pace.backoff).delay(rounds)

    def _tell(self, question: CanaryQuestion, found: Found) -> bool:
        """Store the verdicts *found*, and announce a change if the status should show other verdicts now.

        If the prober has got a new question in the meantime, ignore *found*. Return True if the changed verdicts are
        new: not among those that the status showed recently. In that case `run` begins with short pauses again. While
        the same verdicts return again and again, the pauses go on growing.
        """
        if not question.is_same(self._question):
            return False
        self._asked_at = self._clock()
        shown = found.after(self._shown, self._before)
        self._before.appendleft(found)
        if shown == self._shown:
            return False
        is_new = shown not in self._recent
        self._recent.append(shown)
        self._shown = shown
        self.feed.announce()
        return is_new

    async def _round(self, question: CanaryQuestion) -> Found:
        turns = asyncio.Semaphore(self._pace.at_once)

        async def looked(canary: Canary) -> tuple[ZoneReplies, list[ZoneReplies]]:
            async with turns:
                return await self._look(question, canary)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(looked(canary)) for canary in question.canaries]
        seen = [task.result() for task in running]
        return Found(
            nameserver_verdict([direct for direct, _ in seen]),
            tuple(verdict(each) for _, servers in seen for each in servers),
        )

    async def _look(self, question: CanaryQuestion, canary: Canary) -> tuple[ZoneReplies, list[ZoneReplies]]:
        """Ask the nameserver itself, after that the servers of the cluster's DNS, and return the replies of both.

        If the nameserver doesn't know the canary, don't ask the cluster's DNS: it would cache the negative answer.
        """
        direct = await self._answer(question.nameserver, canary.name, question)
        blank = ZoneReplies(canary.zone, "", question.nameserver, direct, targets=question.targets.get(canary.zone))
        found = [replace(blank, server=server) for server in question.servers]
        if not (direct.denies or direct.rcode == "REFUSED"):
            found = [seen if seen.loops else await self._look_at(seen, canary, question) for seen in found]
        return blank, found

    async def _look_at(self, seen: ZoneReplies, canary: Canary, question: CanaryQuestion) -> ZoneReplies:
        udp = await self._answer(seen.server, canary.name, question)
        seen = replace(seen, udp=udp)
        if gives(udp, seen.nameserver):
            return replace(seen, tcp=await self._answer(seen.server, canary.name, question, tcp=True))
        if not (udp.denies and is_of_ours(udp)):
            return seen
        name = f"{self._token()}.{canary.name}"
        return replace(
            seen,
            fresh=await self._answer(seen.server, name, question),
            fresh_direct=await self._answer(seen.nameserver, name, question),
        )

    async def _answer(self, server: str, name: str, question: CanaryQuestion, *, tcp: bool = False) -> Reply:
        timeout = self._pace.direct if server == question.nameserver else self._pace.timeout
        ipv6 = ":" in question.nameserver
        return await self._ask(Query(server, name, "tcp" if tcp else "udp", ipv6, timeout))

    def collect(self) -> Iterator[Metric]:
        """Yield the verdicts that the status shows, and the time of the most recent round, as metrics.

        prometheus_client calls this method at each scrape.
        """
        ready = GaugeMetricFamily(
            "tsoperator_cluster_dns_ready",
            "Whether a server of the cluster's DNS resolves the names of a zone by the nameserver.",
            labels=["zone", "server", "reason"],
        )
        asked = GaugeMetricFamily(
            "tsoperator_cluster_dns_asked_timestamp_seconds", "When the cluster's DNS was last asked."
        )
        for each in self._shown.cluster if self._shown else ():
            ready.add_metric([each.zone, each.server, each.fault], not each.fault)
        if self._shown is not None and self._shown.cluster:
            asked.add_metric([], self._asked_at)
        yield from (ready, asked)
