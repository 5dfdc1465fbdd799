"""Tests of the recording of a run's results."""

from dnsload.recording import Recording, Row, Steps
from dnsload.schedule import SECOND

START = 7 * SECOND


def recorded(seconds: int, window: int, steps: int = 1, step_seconds: int = 1) -> tuple[Recording, list[Row]]:
    """Record a run in which, in the n-th second, n queries are sent, each of which is answered after n milliseconds."""
    said: list[Row] = []
    recording = Recording(window, said.append, Steps(steps, step_seconds, timeout=1))
    recording.begin(START)
    for number in range(1, seconds + 1):
        assert recording.next_turn == START + number * SECOND
        recording.tally.sent += number
        recording.tally.latencies += [number * 1_000_000] * number
        recording.turn(START + number * SECOND + 1000)
    return recording, said


def test_the_recording_of_a_run_has_figures_for_each_second_each_window_and_the_whole_run() -> None:
    recording, said = recorded(6, window=2)
    assert [row.counts.sent for row in said] == [1, 2, 3, 4, 5, 6]
    assert [round(row.percentiles[0] / 1e6) for row in said] == [1, 2, 3, 4, 5, 6]
    recording.end(START + 6 * SECOND + 2000)
    assert [row.counts.sent for row in recording.rows] == [3, 7, 11]
    assert [round(row.end) for row in recording.rows] == [2, 4, 6]
    assert (recording.total.sent, recording.total.latency.count) == (21, 21)


def test_an_incomplete_last_time_window_of_a_run_is_joined_to_the_window_before() -> None:
    recording, _ = recorded(2, window=1)
    recording.tally.lost += 5
    recording.end(START + 2 * SECOND + SECOND // 4)
    assert [row.counts.lost for row in recording.rows] == [0, 5]
    assert recording.total.lost == 5


def test_each_step_of_the_rate_has_its_own_counts_and_the_final_step_also_counts_queries_after_its_end() -> None:
    recording, _ = recorded(5, window=1, steps=2, step_seconds=2)
    recording.end(START + 5 * SECOND + 2000)
    assert [step.sent for step in recording.steps] == [1 + 2, 3 + 4 + 5]


def test_a_lost_query_is_counted_in_the_step_of_the_rate_in_which_it_was_sent() -> None:
    recording, _ = recorded(2, window=1, steps=2, step_seconds=2)
    recording.tally.lost, recording.tally.late = 5, 4
    recording.turn(START + 3 * SECOND)
    recording.tally.lost, recording.tally.late = 7, 6
    recording.end(START + 4 * SECOND)
    assert [(step.lost, step.late) for step in recording.steps] == [(5, 4), (7, 6)]
    assert (recording.total.lost, recording.total.late) == (12, 10)
