"""Asks Services in the background whether they lead to a Pod, and remembers which of them do."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from tsoperator.api.objects import Key
from tsoperator.reconcilers.egresspod.plan import Check, GateQuestion, HealthAnswer
from tsoperator.runtime.workqueue import Backoff

log = logging.getLogger(__name__)

_NAMED: Final = 10  # how many Services a warning names

AskService = Callable[[Check], Awaitable[HealthAnswer]]
"""The function that makes one request to a health check."""


@dataclass(frozen=True, slots=True)
class GatePace:
    """The pace of the health checks for a Pod.

    The prober asks *at_once* Services at a time, and gives up a request after *timeout* seconds. Between a failed
    attempt and the next one, it makes the pause that *backoff* says. It logs a warning about a Pod that has waited for
    *slow* seconds.
    """

    at_once: int = 8
    timeout: float = 3.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.05, cap=2.0))
    slow: float = 60.0


async def ask_by_http(session: aiohttp.ClientSession, check: Check) -> HealthAnswer:
    """Make one request to a health check, and return its result."""
    try:
        async with session.get(check.url, allow_redirects=False) as response:
            return check.answer(response.status, response.headers.get(check.header))
    except aiohttp.ClientError:
        return HealthAnswer.UNREACHABLE


def health_session(*, in_cluster: bool) -> aiohttp.ClientSession:
    """Return a session for `ask_by_http`. Each request has a connection of its own, so that it can reach any Pod.

    An operator that runs *in_cluster* connects to Services itself. It doesn't use the web proxy that HTTP_PROXY names,
    because that can't reach Services, and would answer in place of the Pod. An operator outside of the cluster needs
    the web proxy to get into the cluster.
    """
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0), trust_env=not in_cluster)


@dataclass(slots=True)
class _Watch:
    """The health checks for a waiting Pod: its *question*, the checks that have *passed*, and tasks for the others."""

    pod: Key
    question: GateQuestion
    turns: asyncio.Semaphore
    ended: "asyncio.Future[None]"
    passed: set[Check] = field(default_factory=set)
    begun: "asyncio.Queue[Check]" = field(default_factory=asyncio.Queue)
    asking: "dict[Check, asyncio.Task[None] | None]" = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None
    warning: asyncio.TimerHandle | None = None

    @property
    def left(self) -> frozenset[Check]:
        """The checks that have not passed."""
        return self.question.checks - self.passed


class GateProber:
    """Makes the health checks of waiting Pods, while `run` runs. No reconcile waits for them."""

    def __init__(
        self,
        ask: AskService,
        observe: Callable[[HealthAnswer], None] = lambda answer: None,
        pace: GatePace | None = None,
    ) -> None:
        """*ask* makes a request to a health check; *observe* is called with the result of each request."""
        self._ask = ask
        self._observe = observe
        self._pace = pace or GatePace()
        self._watches: dict[Key, _Watch] = {}
        self._begun: asyncio.Queue[_Watch] = asyncio.Queue()

    async def run(self) -> None:
        """Make the health checks until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    watch = await self._begun.get()
                    if self._watches.get(watch.pod) is watch:
                        watch.task = tasks.create_task(self._watch(watch))
        finally:
            for watch in [*self._watches.values()]:
                self._end(watch)

    def follow(self, pod: Key, question: GateQuestion | None) -> "asyncio.Future[None] | None":
        """Begin to make the checks of *question*, each until it passes, to see whether Services lead to *pod*.

        They replace the checks of an earlier question about *pod*. If *question* is None, stop all checks for *pod*.

        Return a future that is done when all checks have passed. Return None if all have passed already, or if
        *question* is None.
        """
        watch = self._watches.get(pod)
        if watch is not None and (question is None or watch.question.pod != question.pod):
            self._end(watch)
            watch = None
        if question is None:
            return None
        watch = watch or self._begin(pod, question)
        watch.question = question
        watch.passed &= question.checks
        for check in watch.asking.keys() - question.checks:
            if task := watch.asking.pop(check):
                task.cancel()
        for check in watch.left - watch.asking.keys():
            watch.asking[check] = None
            watch.begun.put_nowait(check)
        if not watch.left:
            return None
        if watch.ended.done():
            watch.ended = asyncio.get_running_loop().create_future()
        return watch.ended

    def _end(self, watch: _Watch) -> None:
        """Stop the health checks for the Pod of *watch*."""
        del self._watches[watch.pod]
        if watch.warning is not None:
            watch.warning.cancel()
        if watch.task is not None:
            watch.task.cancel()

    def _begin(self, pod: Key, question: GateQuestion) -> _Watch:
        loop = asyncio.get_running_loop()
        watch = _Watch(pod, question, asyncio.Semaphore(self._pace.at_once), loop.create_future())
        watch.warning = loop.call_later(self._pace.slow, self._warn, watch)
        self._watches[pod] = watch
        self._begun.put_nowait(watch)
        return watch

    async def _watch(self, watch: _Watch) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                check = await watch.begun.get()
                if check in watch.asking and watch.asking[check] is None:
                    watch.asking[check] = tasks.create_task(self._pass(watch, check))

    async def _pass(self, watch: _Watch, check: Check) -> None:
        """Repeat *check* until it passes."""
        failures = 0
        while not await self._attempt(watch, check):
            await asyncio.sleep(self._pace.backoff.delay(failures))
            failures += 1
        del watch.asking[check]
        watch.passed.add(check)
        if not watch.left and not watch.ended.done():
            watch.ended.set_result(None)

    async def _attempt(self, watch: _Watch, check: Check) -> bool:
        """Make requests for *check* until the result of one isn't OTHER, or until the limit of requests is reached.

        Return whether *check* passes.
        """
        async with watch.turns:
            for _ in range(watch.question.requests):
                answer = await self._request(check)
                if answer is not HealthAnswer.OTHER:
                    return answer.passes
        return False

    async def _request(self, check: Check) -> HealthAnswer:
        try:
            async with asyncio.timeout(self._pace.timeout):
                answer = await self._ask(check)
        except TimeoutError:
            answer = HealthAnswer.UNREACHABLE
        self._observe(answer)
        return answer

    def _warn(self, watch: _Watch) -> None:
        late = sorted({check.service for check in watch.left} | watch.question.unserved)
        if late:
            log.warning(
                "Pod %s has waited for %g s to become ready: %d of its egress Services don't lead to it yet: %s",
                watch.pod,
                self._pace.slow,
                len(late),
                ", ".join(map(str, late[:_NAMED])) + (", …" if late[_NAMED:] else ""),
            )
