import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tsoperator.api.objects import Key
from tsoperator.runtime.workqueue import Backoff, WorkQueue, nine_to_ten_tenths

from tests.support.virtual_time import VirtualTimeLoop, in_virtual_time, now

A, B = Key("default", "a"), Key("default", "b")
STEADY = Backoff(jitter=lambda: 1.0)


async def handed_out_at(queue: WorkQueue, until: float) -> list[tuple[Key, float]]:
    """Take keys and finish them until the time *until*, and return each key with its time."""
    seen = []
    try:
        async with asyncio.timeout_at(until):
            while True:
                key = await queue.get()
                seen.append((key, now()))
                queue.done(key)
    except TimeoutError:
        return seen


@in_virtual_time
async def test_a_key_that_is_added_twice_waits_in_the_queue_once() -> None:
    queue = WorkQueue()
    for key in (A, B, A):
        queue.add(key)
    assert (len(queue), queue.adds) == (2, 2)
    assert await handed_out_at(queue, 1) == [(A, 0), (B, 0)]


@in_virtual_time
async def test_a_waiting_worker_gets_an_added_key_unless_the_worker_is_cancelled_at_that_moment() -> None:
    queue = WorkQueue()
    for cancelled in (False, True):
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(queue.get())
            await asyncio.sleep(1)
            queue.add(A)
            if cancelled:
                worker.cancel()
        assert (await queue.get() if cancelled else worker.result()) == A
        queue.done(A)


@in_virtual_time
async def test_a_key_waits_for_a_millisecond_after_a_requeue_for_a_shorter_time() -> None:
    queue = WorkQueue()
    await asyncio.sleep(1)  # to a time at which the clock can't advance by the requeue's time
    queue.requeue(A, 1e-17)
    assert await handed_out_at(queue, 2) == [(A, 1.001)]


def test_the_back_off_doubles_up_to_a_cap_and_is_shorter_by_a_random_part_of_up_to_a_tenth() -> None:
    assert [STEADY.delay(n) for n in (0, 1, 2, 13, 14, 10_000)] == [0.005, 0.01, 0.02, 40.96, 60, 60]
    assert Backoff(first=1, jitter=lambda: 0.5).delay(3) == 4
    assert all(0.9 <= nine_to_ten_tenths() <= 1 for _ in range(100))


@in_virtual_time
async def test_the_time_that_a_key_waits_in_the_queue_is_measured() -> None:
    waits: list[float] = []
    queue = WorkQueue(observe_wait=waits.append)
    queue.add(A)
    await asyncio.sleep(3)
    await queue.get()
    queue.add(A)
    await asyncio.sleep(4)
    queue.done(A)
    await queue.get()
    assert waits == [3, 4]


NAMED = [Key("ns", name) for name in "abcd"]
KEYS = st.sampled_from(NAMED)


class QueueMachine(RuleBasedStateMachine):
    """A comparison of the queue with a model: the keys that wait or are with a worker, and the times of timers.

    *announced* has the times at which `add_after` adds keys, and *requeued* those of `requeue` and `retry`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.backoff = Backoff(first=1, jitter=lambda: 1.0)
        self.queue = WorkQueue(self.backoff)
        self.owed: set[Key] = set()
        self.working: set[Key] = set()
        self.announced: dict[Key, float] = {}
        self.requeued: dict[Key, float] = {}
        self.failures: dict[Key, int] = {}

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(main)

    def later(self, due: dict[Key, float], key: Key, seconds: float) -> None:
        if seconds > 0:
            due[key] = min(due.get(key, float("inf")), self.loop.time() + seconds)
        else:
            self.owed.add(key)

    @rule(key=KEYS)
    def add(self, key: Key) -> None:
        self.run(called(self.queue.add, key))
        self.owed.add(key)

    @rule(key=KEYS, seconds=st.integers(-1, 20))
    def add_after(self, key: Key, seconds: int) -> None:
        self.run(called(self.queue.add_after, key, seconds))
        self.later(self.announced, key, seconds)

    @rule(key=KEYS, seconds=st.none() | st.integers(0, 20))
    def requeue(self, key: Key, seconds: int | None) -> None:
        self.run(called(self.queue.requeue, key, seconds))
        self.requeued.pop(key, None)
        if seconds is not None:
            self.later(self.requeued, key, seconds)

    @rule(key=KEYS)
    def retry(self, key: Key) -> None:
        self.run(called(self.queue.retry, key))
        self.later(self.requeued, key, self.backoff.delay(self.failures.get(key, 0)))
        self.failures[key] = self.failures.get(key, 0) + 1

    @rule(key=KEYS)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        self.run(
            asyncio.sleep(seconds + 0.37)
        )  # so that no sum of waits differs from the time of a timer by a rounding error only
        for due in (self.announced, self.requeued):
            for key in [key for key, time in due.items() if time <= self.loop.time()]:
                self.owed.add(key)
                del due[key]

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        for model in (self.owed, self.announced, self.requeued, self.failures):
            model.clear()

    @precondition(lambda self: self.owed - self.working)
    @rule()
    def get(self) -> None:
        key = self.run(asyncio.wait_for(self.queue.get(), 0.001))
        assert key in self.owed - self.working
        self.owed.remove(key)
        self.working.add(key)

    @precondition(lambda self: not (self.owed - self.working or self.announced or self.requeued))
    @rule()
    def get_in_vain(self) -> None:
        with pytest.raises(TimeoutError):
            self.run(asyncio.wait_for(self.queue.get(), 0.001))

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.remove(key)

    @invariant()
    def counts_agree(self) -> None:
        assert (len(self.queue), self.queue.working) == (len(self.owed), len(self.working))
        assert [self.queue.failures(key) for key in NAMED] == [self.failures.get(key, 0) for key in NAMED]

    def teardown(self) -> None:
        """Wait for the end of every timer, and check that each key that is still due is handed out once."""
        for key in self.working:
            self.queue.done(key)
        left = self.owed | self.announced.keys() | self.requeued.keys()
        self.run(asyncio.sleep(400))
        seen = self.run(handed_out_at(self.queue, self.loop.time() + 1))
        self.loop.close()
        assert (sorted(key for key, _ in seen), self.loop.errors) == (sorted(left), [])


async def called(function: Any, *args: Any) -> None:
    function(*args)


def test_no_key_is_lost_or_handed_to_two_workers_in_any_order_of_events() -> None:
    run_state_machine_as_test(QueueMachine, settings=settings(stateful_step_count=30))


def test_on_uvloop_a_timer_of_the_queue_that_is_about_to_fire_can_be_set_to_an_earlier_time() -> None:
    async def twice() -> Key:
        queue = WorkQueue()
        queue.add_after(A, 0.0001)
        queue.add_after(A, 0.00005)
        return await queue.get()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(twice()) == A
