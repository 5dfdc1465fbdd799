import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import Key
from tsoperator.kube.errors import AlreadyExists, Conflict, StatusError, Unreachable
from tsoperator.runtime.controller import Controller, ControllerMetrics, Policy
from tsoperator.runtime.result import Pending, Result, TerminalError
from tsoperator.runtime.workqueue import Backoff, WorkQueue

from tests.support.virtual_time import in_virtual_time, now, run

A, B = Key("default", "a"), Key("default", "b")

Reconcile = Callable[[Key], Awaitable[Result]]


class Ground:
    """A controller with the test's reconcile function, a queue that retries after 1, 2, 4 … seconds, and metrics."""

    def __init__(self, reconcile: Reconcile, policy: Policy | None = None) -> None:
        self.registry = CollectorRegistry()
        metrics = ControllerMetrics(self.registry)
        self.queue = WorkQueue(Backoff(first=1, jitter=lambda: 1.0), metrics.wait_observer("test"))
        metrics.follow("test", self.queue)
        self.controller = Controller("test", reconcile, self.queue, metrics, policy)

    async def run(self, seconds: float, *keys: Key) -> None:
        """Run the controller for *seconds*, with *keys* in the queue at the start."""
        for key in keys:
            self.queue.add(key)
        try:
            async with asyncio.timeout(seconds):
                await self.controller.run()
        except TimeoutError:
            return

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"controller": "test", **labels})


class Until(NamedTuple):
    """The end of a reconcile that waits for a future. At *seconds*, the future gets a result or is *cancelled*."""

    seconds: float
    cancelled: bool = False
    requeue_after: float | None = None

    def pending(self) -> Pending:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        end = future.cancel if self.cancelled else partial(future.set_result, None)
        loop.call_at(self.seconds, end)
        return Pending(future, self.requeue_after)


End = Result | Exception | Until


class Script:
    """A reconcile function that ends in the given ways in order, repeats the last one, and records when it was run."""

    def __init__(self, *ends: End) -> None:
        self.ends = list(ends)
        self.times: list[float] = []

    async def __call__(self, _key: Key) -> Result:
        self.times.append(now())
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Until):
            raise end.pending()
        if isinstance(end, Exception):
            raise end
        return end


def times_of(*ends: End, seconds: float = 20, policy: Policy | None = None) -> list[float]:
    """Return the times at which a key is reconciled if its reconciles end in the given ways."""
    script = Script(*ends)
    run(Ground(script, policy).run(seconds, A))
    return script.times


def levels(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """Return the level of each logged line about an error, and True if the line has a traceback."""
    told = [record for record in caplog.records if not record.getMessage().endswith(" ms")]
    return [(record.levelname, bool(record.exc_info)) for record in told]


DONE = Result()
X = OSError("x")
BUSY = StatusError(429, "TooManyRequests", "x", retry_after=8)
TERMINAL = TerminalError("no such zone")


PATIENT = Policy(patience={PermissionError: Backoff(first=3, cap=10, jitter=lambda: 1.0)})
PATIENTLY = PermissionError("p")


@pytest.mark.parametrize(
    ("ends", "times"),
    [
        ([DONE], [0]),
        ([Result(requeue_after=7), Result(requeue_after=5), DONE], [0, 7, 12]),
        ([X, X, X, DONE], [0, 1, 3, 7]),
        ([Conflict(409, "", "x"), AlreadyExists(409, "", "x"), Unreachable("x"), DONE], [0, 1, 3, 7]),
        ([BUSY, X, BUSY, DONE], [0, 8, 10, 18]),
        ([ExceptionGroup("several", [X, BUSY]), DONE], [0, 8]),
        ([X, X, Result(requeue_after=5), X, DONE], [0, 1, 3, 8, 9]),
        ([Until(5), Until(7), DONE], [0, 5, 7]),
        ([Until(5, cancelled=True), Until(7, cancelled=True), DONE], [0, 5, 7]),
        ([Until(20, requeue_after=7), Until(10), DONE], [0, 7, 10, 20]),
        ([X, X, Until(5), X, DONE], [0, 1, 3, 5, 9]),
        ([TERMINAL], [0]),
        ([ExceptionGroup("several", [TERMINAL, TERMINAL])], [0]),
        ([ExceptionGroup("several", [TERMINAL, X]), DONE], [0, 1]),
        ([PATIENTLY], [0, 3, 9, 19, 29]),
        ([X, X, PATIENTLY], [0, 1, 3, 6, 12, 22]),
        ([PATIENTLY, PATIENTLY, DONE], [0, 3, 9]),
        ([PATIENTLY, X, PATIENTLY, DONE], [0, 3, 5, 8]),
        ([PATIENTLY, Result(requeue_after=1), PATIENTLY], [0, 3, 4, 7, 13, 23]),
        ([PATIENTLY, Until(5), PATIENTLY], [0, 3, 5, 11, 21]),
        ([ExceptionGroup("several", [PATIENTLY, X]), DONE], [0, 1]),
    ],
)
def test_the_result_of_a_reconcile_decides_when_its_key_is_reconciled_again(
    ends: Sequence[End], times: list[float]
) -> None:
    assert times_of(*ends, seconds=30, policy=PATIENT) == times


@in_virtual_time
async def test_retry_refused_reconciles_at_once_only_the_keys_whose_latest_error_somebody_has_to_fix() -> None:
    for end, times in ((PATIENTLY, [0, 3, 4, 9]), (X, [0, 1, 3, 7])):
        script = Script(end)
        ground = Ground(script, PATIENT)
        asyncio.get_running_loop().call_at(now() + 4, ground.controller.retry_refused)
        start = now()
        await ground.run(10, A, B)
        assert [each - start for each in script.times] == [each for each in times for _ in (A, B)]


@pytest.mark.parametrize(
    ("ends", "times"),
    [
        ([Result(requeue_after=100), DONE], [0, 5]),
        ([Result(requeue_after=100), Result(requeue_after=20), DONE], [0, 5, 25]),
        ([Result(requeue_after=20), Result(requeue_after=100), DONE], [0, 5, 105]),
        ([Result(requeue_after=20), TERMINAL], [0, 5]),
        ([Result(requeue_after=5.5), X, DONE], [0, 5, 5.5]),
        ([Result(requeue_after=100), X, X, DONE], [0, 5, 6, 8]),
        ([X, X, X, DONE], [0, 1, 3, 5]),
        ([X, X, TERMINAL, X, DONE], [0, 1, 3, 5, 6]),
        ([Until(10), Until(10), DONE], [0, 5, 10]),
        ([Result(requeue_after=100), Until(10), DONE], [0, 5, 10]),
        ([Result(requeue_after=100), Until(1000), DONE], [0, 5, 100]),
    ],
)
def test_the_latest_reconcile_of_a_key_decides_when_the_key_is_reconciled_again(
    ends: Sequence[End], times: list[float]
) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_at(5, ground.queue.add, A)
        await ground.run(200, A)

    script = Script(*ends)
    ground = Ground(script)
    run(main())
    assert script.times == times


@pytest.mark.parametrize("announce", [WorkQueue.add, lambda queue, key: queue.add_after(key, 5)])
def test_a_change_that_is_announced_during_a_successful_reconcile_is_not_lost(
    announce: Callable[[WorkQueue, Key], None],
) -> None:
    async def reconcile(key: Key) -> Result:
        if not starts:
            announce(ground.queue, key)
        starts.append(now())
        await asyncio.sleep(5)
        return DONE

    starts: list[float] = []
    ground = Ground(reconcile)
    run(ground.run(60, A))
    assert starts == [0, 5]


@pytest.mark.parametrize(
    ("ends", "lines"),
    [
        ([Unreachable("a")] * 3 + [DONE], "WARNING DEBUG DEBUG INFO"),
        ([Unreachable("a"), Unreachable("b"), Unreachable("b"), DONE], "WARNING WARNING DEBUG INFO"),
        ([Unreachable("a"), Result(requeue_after=1), Unreachable("a"), DONE], "WARNING INFO WARNING INFO"),
        ([Unreachable("a"), Unreachable("a"), TerminalError("b"), DONE], "WARNING DEBUG WARNING"),
        ([Until(1), Until(2), DONE], ""),
        ([Unreachable("a"), Until(2), Unreachable("a"), DONE], "WARNING DEBUG INFO"),
        ([OSError("a"), OSError("a"), OSError("b"), OSError("b"), DONE], "ERROR! DEBUG ERROR! DEBUG INFO"),
        ([OSError("b"), ValueError("b"), Unreachable("b"), DONE], "ERROR! ERROR! WARNING INFO"),
        ([OSError("a"), Result(requeue_after=1), OSError("a"), DONE], "ERROR! INFO ERROR! INFO"),
        ([Conflict(409, "Conflict", "changed"), DONE], "DEBUG"),
        ([ExceptionGroup("several", [Conflict(409, "", "a"), Conflict(409, "", "b")]), DONE], "DEBUG"),
        ([Unreachable("a"), Conflict(409, "", "b"), Unreachable("a"), DONE], "WARNING DEBUG DEBUG INFO"),
        ([DONE], ""),
    ],
)
def test_an_error_is_logged_when_it_begins_when_its_words_change_and_when_it_ends(
    ends: Sequence[End], lines: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the table, an exclamation mark after a level stands for a traceback in the log."""
    caplog.set_level(logging.DEBUG, "tsoperator")
    times_of(*ends)
    assert [f"{level}{'!' * traceback}" for level, traceback in levels(caplog)] == lines.split()


def test_the_log_has_a_line_for_each_reconcile_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator")
    times_of(Conflict(409, "Conflict", "changed"), DONE)
    found = [message for message in caplog.messages if message.endswith(" ms")]
    assert [re.sub(r"\d+\.\d ms", "N ms", line) for line in found] == [
        "test default/a: conflict in N ms",
        "test default/a: success in N ms",
    ]


def test_an_expected_error_of_a_reconcile_is_logged_in_one_line_unless_the_log_already_has_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class ControlPlaneError(Exception): ...

    caplog.set_level(logging.INFO, "tsoperator")
    policy = Policy(expected=(Unreachable, ControlPlaneError), has_told=lambda error: str(error) == "told")
    times_of(Unreachable("told"), ControlPlaneError("502\nBad Gateway"), DONE, policy=policy)
    assert caplog.messages == [
        "test default/a: ControlPlaneError: 502 Bad Gateway",
        "test default/a: no longer fails",
    ]
    assert levels(caplog) == [("WARNING", False), ("INFO", False)]


def test_a_conflict_that_comes_back_at_each_retry_is_finally_logged_as_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times_of(Conflict(409, "Conflict", "changed"), seconds=320)
    assert levels(caplog) == [("WARNING", False)]


@in_virtual_time
async def test_a_terminal_error_of_a_reconcile_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ground = Ground(Script(TerminalError("no such zone")))
    await ground.run(1, A)
    await ground.run(1, A)
    assert levels(caplog) == [("WARNING", False)]


def test_as_many_keys_are_reconciled_at_once_as_there_are_workers() -> None:
    spans: list[tuple[float, float]] = []

    async def reconcile(_key: Key) -> Result:
        start = now()
        await asyncio.sleep(10)
        spans.append((start, now()))
        return DONE

    run(Ground(reconcile, Policy(workers=2)).run(60, *(Key("", str(n)) for n in range(5))))
    assert spans == [(0, 10), (0, 10), (10, 20), (10, 20), (20, 30)]


def test_a_key_is_never_reconciled_twice_at_once() -> None:
    spans: list[tuple[float, float]] = []

    async def reconcile(key: Key) -> Result:
        start = now()
        await asyncio.sleep(5)
        ground.queue.add(key)
        await asyncio.sleep(5)
        spans.append((start, now()))
        return DONE

    ground = Ground(reconcile)
    run(ground.run(35, A))
    assert spans == [(0, 10), (10, 20), (20, 30)]


def test_a_reconcile_that_takes_too_long_fails_with_another_error_than_a_timeout_within_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts: list[float] = []

    async def reconcile(_key: Key) -> Result:
        starts.append(now())
        if len(starts) == 3:
            raise TimeoutError("no answer")
        await asyncio.sleep(1000)
        return DONE

    run(Ground(reconcile, Policy(timeout=30)).run(64, A))
    assert starts == [0, 31, 63]
    late = "test default/a: ReconcileTimeoutError: took longer than 30 s"
    assert caplog.messages == [late, "test default/a: TimeoutError: no answer"]


def test_a_cancelled_task_inside_a_reconcile_does_not_end_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(_key: Key) -> Result:
        part = asyncio.create_task(asyncio.sleep(60))
        part.cancel()
        await part
        return DONE

    ground = Ground(reconcile, Policy(workers=1))
    run(ground.run(5, A))
    assert ground.value("tsoperator_reconciles_total", outcome="error") == 3
    assert "was cancelled" in caplog.messages[0]


def test_the_metrics_count_the_reconciles_by_outcome() -> None:
    ground = Ground(Script(X, Conflict(409, "Conflict", "x"), Result(requeue_after=1), Until(30), DONE))
    run(ground.run(60, A))
    counts = {"error": 1, "conflict": 1, "requeue": 2, "success": 1, "terminal": 0}
    assert {each: ground.value("tsoperator_reconciles_total", outcome=each) for each in counts} == counts


@in_virtual_time
async def test_the_metrics_show_the_numbers_and_the_times_of_waiting_keys_and_of_running_reconciles() -> None:
    async def reconcile(_key: Key) -> Result:
        await asyncio.sleep(10)
        return DONE

    ground = Ground(reconcile, Policy(workers=1))
    async with asyncio.TaskGroup() as group:
        group.create_task(ground.run(25, A, B))
        await asyncio.sleep(5)
        names = ("queue_depth", "active_workers", "queue_adds_total")
        assert [ground.value(f"tsoperator_{name}") for name in names] == [1, 1, 2]
    assert ground.value("tsoperator_queue_wait_seconds_sum") == 0 + 10
    assert ground.value("tsoperator_reconcile_duration_seconds_sum") == 10 + 10
