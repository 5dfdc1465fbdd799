"""Tests of the schedule of queries, and of both ways of sending them: at a rate, or with a number outstanding."""

import numpy as np
import pytest
from dnsload.schedule import SECOND, ClosedLoop, OpenLoop, Schedule, Segment

STEPS = (Segment(2, 10, 10), Segment(1, 100, 100), Segment(2, 5, 5))


def due_seconds(schedule: Schedule) -> list[float]:
    return [due / SECOND for due in schedule.due_times(0, schedule.total + 5)]


def test_queries_at_a_constant_rate_are_evenly_spaced() -> None:
    schedule = Schedule([Segment(2, 1000, 1000)])
    assert schedule.total == 2000
    assert due_seconds(schedule) == pytest.approx([number / 1000 for number in range(2000)], abs=1e-9)


@pytest.mark.parametrize(("first", "last"), [(100, 1100), (1100, 100)])
def test_a_ramp_of_the_rate_sends_as_many_queries_as_the_integral_of_the_rate(first: int, last: int) -> None:
    schedule = Schedule([Segment(10, first, last)])
    due = due_seconds(schedule)
    assert len(due) == schedule.total == 6000
    assert due == sorted(due)
    for seconds in (1, 2.5, 5, 9):
        integral = first * seconds + (last - first) / 20 * seconds**2
        assert sum(each < seconds for each in due) == pytest.approx(integral, abs=1)


def test_each_step_of_a_schedule_has_its_rate() -> None:
    due = due_seconds(Schedule(STEPS))
    assert [sum(start <= each < end for each in due) for start, end in ((0, 2), (2, 3), (3, 5))] == [20, 100, 10]


def test_the_due_times_of_queries_are_the_same_whether_they_are_computed_at_once_or_in_parts() -> None:
    schedule = Schedule(STEPS)
    whole = schedule.due_times(0, schedule.total)
    assert whole == [due for first in range(0, 130, 7) for due in schedule.due_times(first, 7)]


def test_the_rate_of_a_schedule_at_a_time_is_that_of_the_present_step_or_0_outside_all_steps() -> None:
    schedule = Schedule([*STEPS, Segment(2, 10, 30)])
    assert [schedule.rate(at) for at in (0, 1.9, 2.5, 3, 6, 7, -1)] == [10, 10, 100, 5, 20, 0, 0]


def test_an_open_loop_hands_out_each_due_query_once() -> None:
    loop = OpenLoop(Schedule([Segment(1, 10_000, 10_000)]), start=5 * SECOND)
    assert loop.due(5 * SECOND - 1, 0, 100) == []
    assert loop.next_due() == 5 * SECOND
    half = [due for _ in range(60) for due in loop.due(5 * SECOND + SECOND // 2, 0, 100)]
    assert len(half) == len({*half}) == 5001
    assert np.diff(half) == pytest.approx(100_000)


def test_an_open_loop_counts_due_queries_that_it_has_not_handed_out_and_has_no_query_after_its_end() -> None:
    loop = OpenLoop(Schedule([Segment(1, 150, 150)]), start=0)
    assert len(loop.due(SECOND, 0, 100)) == 100
    assert [loop.unsent(at) for at in (SECOND * 4 // 5, SECOND)] == [21, 50]
    assert len(loop.due(SECOND, 0, 100)) == 50
    assert (loop.next_due(), loop.ends, loop.unsent(SECOND)) == (None, SECOND, 0)


def test_a_closed_loop_keeps_its_number_of_outstanding_queries_until_its_end() -> None:
    loop = ClosedLoop(10, 2.0, start=0)
    assert loop.due(7, 4, 100) == [7] * 6
    assert loop.due(7, 4, 5) == [7] * 5
    assert loop.due(7, 10, 100) == []
    assert loop.due(2 * SECOND, 0, 100) == []
    assert (loop.next_due(), loop.unsent(SECOND)) == (None, 0)
