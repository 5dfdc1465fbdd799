"""Asks the cluster's DNS in the background whether it knows the nameserver, and tells when the answer changes."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import Object, Resource
from tsoperator.reconcilers.dnsconfig.answers import Reply, Seen, Verdict, gives, is_of_ours, steadied, verdict
from tsoperator.reconcilers.dnsconfig.asking import Ask, Query
from tsoperator.reconcilers.dnsconfig.question import Canary, Question
from tsoperator.runtime.cache import Listener
from tsoperator.runtime.workqueue import Backoff

VERDICT: Final = Resource("", "", "verdicts", "Verdict")
"""What was found out about the cluster's DNS. It is no object of the cluster, but a change of it is a watch event."""

_CHANGE: Final[Object] = {"kind": VERDICT.kind, "metadata": {"name": "cluster-dns"}}


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the cluster's DNS is asked, in seconds.

    While all is well, it is asked after *steady*, and else after *backoff*. Both start over with a change, because the
    cluster's DNS may load a new configuration a minute later. Changes in the cluster come in bursts, so there are at
    least *rest* seconds between two rounds. The cluster's DNS has *timeout* seconds to answer, and the nameserver
    *direct*. No more than *at_once* zones are asked for at a time.
    """

    steady: Backoff = field(default_factory=lambda: Backoff(first=1.0, cap=180.0))
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, cap=8.0))
    rest: float = 1.0
    timeout: float = 5.0
    direct: float = 2.0
    at_once: int = 8


class Prober(Collector):
    """Asks the question that it was given last, while `run` runs. No reconcile waits for it."""

    def __init__(
        self,
        ask: Ask,
        pace: Pace | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(4),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*ask* asks a server; *token* makes the label of a name that nobody has asked for before."""
        self._ask = ask
        self._pace = pace or Pace()
        self._token = token
        self._clock = clock
        self._question: Question | None = None
        self._verdicts: tuple[Verdict, ...] | None = None
        self._found: tuple[Verdict, ...] = ()  # in the last round
        self._asked_at = 0.0
        self._changed = asyncio.Event()
        self._listeners: list[Listener] = []

    def follow(self, question: Question | None) -> Sequence[Verdict] | None:
        """Ask *question* from now on, at once if it is new; return what came of it, None if nothing did yet."""
        if question != self._question:
            if question is None or not question.is_same(self._question):
                self._verdicts = None
            self._question = question
            self._changed.set()
        return self._verdicts

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Call *listener* at every change of the verdicts, if *resource* is `VERDICT`."""
        if resource == VERDICT:
            self._listeners.append(listener)

    def all(self, resource: Resource) -> list[Object]:
        """Return nothing: a resync enqueues the DNSConfigs by themselves."""
        del resource
        return []

    async def run(self) -> None:
        """Ask until cancelled."""
        rounds = 0
        try:
            while True:
                if self._question is None:
                    await self._changed.wait()
                if self._changed.is_set():
                    rounds = 0
                    self._changed.clear()
                if (question := self._question) is None:
                    continue
                verdicts = await self._round(question)
                if self._tell(question, verdicts):
                    rounds = 0
                is_well = not any(each.fault for each in verdicts)
                pause = (self._pace.steady if is_well else self._pace.backoff).delay(rounds)
                rounds += 1
                await asyncio.sleep(self._pace.rest)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
        finally:
            self._question = self._verdicts = None

    def _tell(self, question: Question, found: tuple[Verdict, ...]) -> bool:
        """Note what was *found*, unless the question has become another one, and tell the listeners what is new.

        Return whether something is.
        """
        if not question.is_same(self._question):
            return False
        self._asked_at = self._clock()
        verdicts = steadied(self._verdicts or (), self._found, found)
        self._found = found
        if verdicts == self._verdicts:
            return False
        self._verdicts = verdicts
        for listener in self._listeners:
            listener(None, _CHANGE)
        return True

    async def _round(self, question: Question) -> tuple[Verdict, ...]:
        turns = asyncio.Semaphore(self._pace.at_once)

        async def judged(canary: Canary) -> list[Verdict]:
            async with turns:
                return [verdict(seen) for seen in await self._look(question, canary)]

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(judged(canary)) for canary in question.canaries]
        return tuple(each for task in running for each in task.result())

    async def _look(self, question: Question, canary: Canary) -> list[Seen]:
        """Ask the nameserver itself first. If it doesn't know the canary, the cluster's DNS must not learn that."""
        direct = await self._answer(question.nameserver, canary.name, question)
        blank = Seen(canary.zone, "", question.nameserver, direct, targets=question.targets.get(canary.zone))
        found = [replace(blank, server=server) for server in question.servers]
        if direct.denies or direct.rcode == "REFUSED":
            return found
        return [seen if seen.loops else await self._look_at(seen, canary, question) for seen in found]

    async def _look_at(self, seen: Seen, canary: Canary, question: Question) -> Seen:
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

    async def _answer(self, server: str, name: str, question: Question, *, tcp: bool = False) -> Reply:
        timeout = self._pace.direct if server == question.nameserver else self._pace.timeout
        ipv6 = ":" in question.nameserver
        return await self._ask(Query(server, name, "tcp" if tcp else "udp", ipv6, timeout))

    def collect(self) -> Iterator[Metric]:
        """Yield what came of the last questions; prometheus_client calls this for each scrape."""
        ready = GaugeMetricFamily(
            "tsoperator_cluster_dns_ready",
            "Whether a server of the cluster's DNS resolves the names of a zone by the nameserver.",
            labels=["zone", "server", "reason"],
        )
        asked = GaugeMetricFamily(
            "tsoperator_cluster_dns_asked_timestamp_seconds", "When the cluster's DNS was last asked."
        )
        for each in self._verdicts or ():
            ready.add_metric([each.zone, each.server, each.fault], not each.fault)
        if self._verdicts is not None:
            asked.add_metric([], self._asked_at)
        yield from (ready, asked)
