"""Takes keys from a queue, reconciles several at a time, and retries those that fail."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import Key
from tsoperator.kube.errors import Conflict, StatusError, Unreachable
from tsoperator.runtime.result import Pending, Result, TerminalError
from tsoperator.runtime.workqueue import Backoff, WorkQueue

log = logging.getLogger(__name__)

QUIET_CONFLICTS = 10
"""The number of conflicts in a row that are logged at DEBUG only: a cache that lags for 5 s causes about so many."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Outcome(StrEnum):
    """The outcome of a reconcile, for the metrics and the log.

    REQUEUE means that the key is reconciled again even if no object changes, and TERMINAL that it isn't.
    """

    SUCCESS = "success"
    REQUEUE = "requeue"
    CONFLICT = "conflict"
    ERROR = "error"
    TERMINAL = "terminal"


class ReconcileTimeoutError(Exception):
    """A reconcile took longer than the policy allows."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a controller.

    It reconciles as many keys at once as it has *workers*, and gives up on a reconcile after *timeout* seconds.
    Errors of the *expected* types are logged without a traceback. *has_told* tells whether an error is in the log
    already; the controller logs such an error at DEBUG only. *patience* has a back-off for each type of error that a
    retry cannot fix.
    """

    workers: int = 4
    timeout: float = 120.0
    expected: tuple[type[Exception], ...] = (Unreachable,)
    patience: Mapping[type[Exception], Backoff] = field(default_factory=dict)
    has_told: Callable[[Exception], bool] = lambda error: False


class ControllerMetrics(Collector):
    """The metrics of all controllers.

    The lengths of the queues are read at each scrape; reconciles are counted as they end.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, WorkQueue] = {}
        outcomes = Counter(
            "tsoperator_reconciles", "Reconciles by how they ended.", ["controller", "outcome"], registry=registry
        )
        duration = Histogram(
            "tsoperator_reconcile_duration_seconds",
            "Time that a reconcile took.",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._outcomes, self._duration = lru_cache(outcomes.labels), lru_cache(duration.labels)
        self._wait = Histogram(
            "tsoperator_queue_wait_seconds",
            "Time that a key waited for a worker.",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.leading = Gauge("tsoperator_leading", "Whether this process leads, and so reconciles.", registry=registry)
        registry.register(self)

    def wait_observer(self, controller: str) -> Callable[[float], None]:
        """Return the function that observes how many seconds a key waited in the queue of *controller*."""
        return self._wait.labels(controller).observe

    def follow(self, controller: str, queue: WorkQueue) -> None:
        """Show *queue* in the metrics as that of *controller*, whose count of each outcome starts at 0."""
        self._queues[controller] = queue
        for outcome in Outcome:
            self._outcomes(controller, outcome)

    def count(self, controller: str, outcome: Outcome, seconds: float) -> None:
        """Count a reconcile of *controller* that took *seconds* and had this *outcome*."""
        self._outcomes(controller, outcome).inc()
        self._duration(controller).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the queues; prometheus_client calls this at each scrape."""
        depth = GaugeMetricFamily("tsoperator_queue_depth", "Keys that wait for a worker.", labels=["controller"])
        active = GaugeMetricFamily("tsoperator_active_workers", "Reconciles that are running.", labels=["controller"])
        adds = CounterMetricFamily("tsoperator_queue_adds", "Adds that made a key wait.", labels=["controller"])
        for controller, queue in self._queues.items():
            depth.add_metric([controller], len(queue))
            active.add_metric([controller], queue.working)
            adds.add_metric([controller], queue.adds)
        yield from (depth, active, adds)


class Controller:
    """Calls *reconcile* for the keys of a queue: several keys at once, each by one worker.

    A conflict is retried, and is logged as a warning only after many conflicts in a row. A key with a `TerminalError`
    is reconciled again when something changes. After any other error, the key is retried after a back-off. An error is
    logged once when it begins, with its traceback unless the policy expects such errors, and once more when its words
    change. Repeats are logged at DEBUG. One line at INFO says when the key no longer fails.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[Key], Awaitable[Result]],
        queue: WorkQueue,
        metrics: ControllerMetrics,
        policy: Policy | None = None,
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._queue = queue
        self._metrics = metrics
        self._policy = policy or Policy()
        self._last_error: dict[Key, str] = {}  # of each key that fails: the words of its last error
        self._patience: dict[Key, Backoff] = {}  # of each key whose last error a retry cannot fix: its back-off

    async def run(self) -> None:
        """Reconcile the keys of the queue until cancelled.

        If the cancellation interrupts a reconcile, its key is not queued again.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(self._policy.workers):
                group.create_task(self._work(), name=f"{self._name} worker {number}")

    def retry_refused(self) -> None:
        """Reconcile at once each key whose latest error a retry can't fix: perhaps somebody has fixed the cause."""
        for key in self._patience:
            self._queue.add(key)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._queue.get()
            start, began = loop.time(), time.perf_counter()  # the loop's time stands still while one task runs
            try:
                outcome = await self._attempt(key)
            finally:
                self._queue.done(key)
            self._metrics.count(self._name, outcome, loop.time() - start)
            log.debug("%s %s: %s in %.1f ms", self._name, key, outcome, 1000 * (time.perf_counter() - began))
            await asyncio.sleep(0)  # a reconcile that has nothing to do never waits: let other tasks run

    async def _attempt(self, key: Key) -> Outcome:
        try:
            result = await self._bounded(key)
        except Pending as pending:
            pending.until.add_done_callback(lambda _: self._queue.add(key))
            if pending.requeue_after is not None:
                self._queue.requeue(key, pending.requeue_after)
            return Outcome.REQUEUE
        except Exception as error:  # noqa: BLE001 (an error of one key must not stop the others)
            return self._failed(key, error)
        return self._succeeded(key, result)

    async def _bounded(self, key: Key) -> Result:
        """Reconcile *key*, and raise ReconcileTimeoutError if that takes longer than the policy allows."""
        limit = asyncio.timeout(self._policy.timeout)
        try:
            async with limit:
                return await self._reconcile(key)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ReconcileTimeoutError(f"took longer than {self._policy.timeout:g} s") from error
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            # Somebody cancelled a task that the reconcile awaited. The worker itself goes on, so this is an error.
            raise RuntimeError("a part of the reconcile was cancelled") from error

    def _succeeded(self, key: Key, result: Result) -> Outcome:
        """Forget the failures of *key*, and requeue it if *result* says so."""
        if self._last_error.pop(key, None) is not None:
            log.info("%s %s: no longer fails", self._name, key)  # true as well if the object is gone
        self._patience.pop(key, None)
        self._queue.forget(key)
        self._queue.requeue(key, result.requeue_after)
        return Outcome.SUCCESS if result.requeue_after is None else Outcome.REQUEUE

    def _failed(self, key: Key, error: Exception) -> Outcome:
        """Log *error*, retry *key* unless the error is terminal, and return the outcome."""
        if _is_only(error, Conflict):
            level = logging.DEBUG if self._queue.failures(key) < QUIET_CONFLICTS else logging.WARNING
            log.log(level, "%s %s: retrying: %s", self._name, key, _text(error))
            self._queue.retry(key)
            return Outcome.CONFLICT

        new = not self._policy.has_told(error) and self._is_new(key, error)
        if _is_only(error, TerminalError):
            level = logging.WARNING if new else logging.DEBUG
            log.log(level, "%s %s: waiting for a change: %s", self._name, key, _text(error))
            self._patience.pop(key, None)
            self._queue.forget(key)
            self._queue.requeue(key, None)
            return Outcome.TERMINAL

        expected = _is_only(error, self._policy.expected)
        level = (logging.WARNING if expected else logging.ERROR) if new else logging.DEBUG
        log.log(level, "%s %s: %s", self._name, key, _text(error), exc_info=error if new and not expected else None)
        self._retry(key, error)
        return Outcome.ERROR

    def _retry(self, key: Key, error: Exception) -> None:
        """Retry *key* after the back-off for *error*, or after the longer wait that the API server has asked for.

        If `Policy.patience` has the back-off for *error*, and the previous error of *key* had another back-off, begin
        with the first wait again.
        """
        patience = self._policy.patience.items()
        backoff = next((backoff for kind, backoff in patience if _is_only(error, kind)), None)
        if backoff is None:
            self._patience.pop(key, None)
        elif self._patience.get(key) is not backoff:
            self._patience[key] = backoff
            self._queue.forget(key)
        self._queue.retry(key, backoff, _asked_wait(error))

    def _is_new(self, key: Key, error: Exception) -> bool:
        """Remember the words of *error*, and tell whether they are other than those of the previous error of *key*."""
        text = _text(error)
        new = self._last_error.get(key) != text
        self._last_error[key] = text
        return new


def _is_cancelled() -> bool:
    """Tell whether the running task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_only(error: Exception, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Tell whether *error* is of one of the types *kinds*, or is a group with such errors only."""
    if isinstance(error, ExceptionGroup):
        return error.split(kinds)[1] is None
    return isinstance(error, kinds)


def _asked_wait(error: Exception) -> float:
    """Return the seconds that the API server asks us to wait by *error*, 0 if it doesn't ask.

    For a group of errors, return the longest wait.
    """
    if isinstance(error, ExceptionGroup):
        return max(map(_asked_wait, error.exceptions))
    return error.retry_after if isinstance(error, StatusError) else 0.0


def _text(error: Exception) -> str:
    """Return the type, the words and the notes of *error* in one line.

    For a group of errors, the line has the type, the words and the notes of each error in the group.
    """
    if isinstance(error, ExceptionGroup):
        return "; ".join(_text(inner) for inner in error.exceptions)
    words = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    return " ".join(words.split())
