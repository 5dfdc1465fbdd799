"""Key after key to a reconcile: several at once, each as often as it takes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import Key
from tsoperator.kube.errors import Conflict, Unreachable
from tsoperator.runtime.result import Result, TerminalError
from tsoperator.runtime.workqueue import Backoff, WorkQueue

log = logging.getLogger(__name__)

QUIET_CONFLICTS = 10
"""Conflicts in a row, some five seconds of them, that a cache which lags behind can explain."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Outcome(StrEnum):
    """How a reconcile ended."""

    SUCCESS = "success"
    REQUEUE = "requeue"
    CONFLICT = "conflict"
    ERROR = "error"
    TERMINAL = "terminal"


class ReconcileTimeoutError(Exception):
    """A reconcile took longer than it may."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a controller works: keys at once, seconds that a reconcile may take, errors that need no traceback.

    *patience* has the back-off after errors that trying again does not mend, by kind of error.
    """

    workers: int = 4
    timeout: float = 120.0
    expected: tuple[type[Exception], ...] = (Unreachable,)
    patience: Mapping[type[Exception], Backoff] = field(default_factory=dict)


class ControllerMetrics(Collector):
    """The figures of all controllers: what queues hold is read when scraped, what reconciles did is counted."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, WorkQueue] = {}
        self._outcomes = Counter(
            "tsoperator_reconciles", "Reconciles by how they ended.", ["controller", "outcome"], registry=registry
        )
        self._duration = Histogram(
            "tsoperator_reconcile_duration_seconds",
            "Time that a reconcile took.",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
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
        """Return what the queue of *controller* tells its waiting times, in seconds."""
        return self._wait.labels(controller).observe

    def follow(self, controller: str, queue: WorkQueue) -> None:
        """Show *queue* as that of *controller*, and start its counts at zero."""
        self._queues[controller] = queue
        for outcome in Outcome:
            self._outcomes.labels(controller, outcome)

    def count(self, controller: str, outcome: Outcome, seconds: float) -> None:
        """Count a reconcile that took *seconds*."""
        self._outcomes.labels(controller, outcome).inc()
        self._duration.labels(controller).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Read the queues (the contract of prometheus_client's collectors)."""
        depth = GaugeMetricFamily("tsoperator_queue_depth", "Keys that wait for a worker.", labels=["controller"])
        active = GaugeMetricFamily("tsoperator_active_workers", "Reconciles that are running.", labels=["controller"])
        adds = CounterMetricFamily("tsoperator_queue_adds", "Adds that made a key wait.", labels=["controller"])
        for controller, queue in self._queues.items():
            depth.add_metric([controller], len(queue))
            active.add_metric([controller], queue.working)
            adds.add_metric([controller], queue.adds)
        yield from (depth, active, adds)


class Controller:
    """Calls *reconcile* for the keys of a queue, several keys at once, one worker a key.

    A conflict is retried quietly. A `TerminalError` waits for a change. Any other error backs off; its traceback is
    logged when it is new for that key, and never for the errors that the policy expects.
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
        self._last_error: dict[Key, str] = {}  # of keys that fail, for as long as they do
        self._patience: dict[Key, Backoff] = {}  # of keys that wait for somebody to mend what is wrong
        metrics.follow(name, queue)

    async def run(self) -> None:
        """Reconcile until cancelled; a reconcile that this interrupts is owed again by the queue."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._policy.workers):
                group.create_task(self._work(), name=f"{self._name} worker {number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._queue.get()
            start = loop.time()
            try:
                outcome = await self._attempt(key)
            except asyncio.CancelledError:
                self._queue.add(key)
                raise
            finally:
                self._queue.done(key)
            self._metrics.count(self._name, outcome, loop.time() - start)

    async def _attempt(self, key: Key) -> Outcome:
        try:
            result = await self._bounded(key)
        except Exception as error:  # noqa: BLE001 (whatever a reconciler raises, the other keys go on)
            return self._failed(key, error)
        self._queue.forget(key)
        self._last_error.pop(key, None)
        self._patience.pop(key, None)
        self._queue.requeue(key, result.requeue_after)
        return Outcome.SUCCESS if result.requeue_after is None else Outcome.REQUEUE

    async def _bounded(self, key: Key) -> Result:
        """Reconcile *key* within the time that it may take."""
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
            # Something that the reconcile awaited was cancelled, not this worker: it must not end without a word.
            raise RuntimeError("a part of the reconcile was cancelled") from error

    def _failed(self, key: Key, error: Exception) -> Outcome:
        """Log *error* as it deserves, and see to it that *key* comes again if that can help."""
        if _is_only(error, Conflict):
            level = logging.DEBUG if self._queue.failures(key) < QUIET_CONFLICTS else logging.WARNING
            log.log(level, "%s %s: retrying: %s", self._name, key, _text(error))
            self._queue.retry(key)
            return Outcome.CONFLICT

        new = self._is_new(key, error)
        if _is_only(error, TerminalError):
            level = logging.WARNING if new else logging.DEBUG
            log.log(level, "%s %s: waiting for a change: %s", self._name, key, _text(error))
            self._queue.forget(key)
            self._queue.requeue(key, None)
            return Outcome.TERMINAL

        if _is_only(error, self._policy.expected):
            log.warning("%s %s: %s", self._name, key, _text(error))
        else:
            log.error("%s %s: %s", self._name, key, _text(error), exc_info=error if new else None)
        self._retry(key, error)
        return Outcome.ERROR

    def _retry(self, key: Key, error: Exception) -> None:
        """Let *key* come again after the back-off that *error* asks for, at its first step after another error."""
        patience = self._policy.patience.items()
        backoff = next((backoff for kind, backoff in patience if _is_only(error, kind)), None)
        if backoff is None:
            self._patience.pop(key, None)
        elif self._patience.get(key) is not backoff:
            self._patience[key] = backoff
            self._queue.forget(key)
        self._queue.retry(key, backoff)

    def _is_new(self, key: Key, error: Exception) -> bool:
        """Tell whether the last failure of *key* was another one, and remember this one."""
        text = _text(error)
        new = self._last_error.get(key) != text
        self._last_error[key] = text
        return new


def _is_cancelled() -> bool:
    """Tell whether somebody has asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_only(error: Exception, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Tell whether *error*, or each error in a group, is one of *kinds*."""
    if isinstance(error, ExceptionGroup):
        return error.split(kinds)[1] is None
    return isinstance(error, kinds)


def _text(error: Exception) -> str:
    """Return *error* in one line: its type and words, or those of a group's errors."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(_text(inner) for inner in error.exceptions)
    return " ".join(f"{type(error).__name__}: {error}".split())
