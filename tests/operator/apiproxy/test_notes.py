"""The log lines about callers."""

import pytest
from tsoperator.apiproxy.notes import Notes


def test_log_lines_about_callers_beyond_the_limit_become_one_line_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now = [0.0]
    notes = Notes(most=2, seconds=10, clock=lambda: now[0])
    for number in range(5):
        notes.note("100.64.0.7:1", f"refused: {number}")
    now[0] = 10
    notes.note("100.64.0.7:1", "refused: again")
    assert caplog.messages == [
        "100.64.0.7:1: refused: 0",
        "100.64.0.7:1: refused: 1",
        "3 more lines about callers were left out",
        "100.64.0.7:1: refused: again",
    ]


def test_a_line_that_is_to_be_logged_once_is_logged_once_for_each_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    notes = Notes()
    for who in ("100.64.0.7", "100.64.0.8", "100.64.0.7"):
        notes.once(who, "not recorded")
    assert caplog.messages == ["100.64.0.7: not recorded", "100.64.0.8: not recorded"]
