"""Conditions of an object's status."""

from copy import deepcopy

import pytest
from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.objects import Object

THEN = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"


def ready(status: bool | str, reason: str = "Because", generation: int | None = 3) -> Object:
    return condition("Ready", status, reason, "words", generation)


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), ("Unknown", "Unknown")])
def test_a_new_condition_has_true_false_or_unknown_as_its_status_and_no_transition_time(
    status: bool | str, word: str
) -> None:
    bare = {"type": "Ready", "status": word, "reason": "Because", "message": "words"}
    assert ready(status, generation=None) == bare
    assert ready(status) == {**bare, "observedGeneration": 3}


def test_a_condition_message_that_is_too_long_for_the_api_server_is_cut() -> None:
    assert len(condition("Ready", False, "Because", "x" * 40000)["message"]) == 32768


OLD = {**ready(False, "Old", 3), "lastTransitionTime": THEN}


@pytest.mark.parametrize(
    ("before", "after", "time"),
    [
        ([], ready(True), NOW),
        ([OLD], ready(False, "Old", 3), THEN),
        ([OLD], ready(False, "New", 4), THEN),
        ([OLD], ready(True, "Old", 3), NOW),
        ([ready(True)], ready(True), NOW),
    ],
    ids=["new", "as before", "another reason", "another status", "without a time"],
)
def test_the_transition_time_of_a_condition_changes_only_with_its_status(
    before: list[Object], after: Object, time: str
) -> None:
    given = deepcopy(before)
    assert set_condition(before, [after], NOW) == [{**after, "lastTransitionTime": time}]
    assert before == given


def test_the_conditions_of_a_status_keep_their_order_and_new_types_come_last() -> None:
    before = set_condition([], [condition("B", True, "Yes", ""), condition("A", True, "Yes", "")], THEN)
    after = set_condition(before, [condition("C", True, "Yes", ""), condition("A", False, "No", "")], NOW)
    assert [(each["type"], each["status"]) for each in after] == [("B", "True"), ("A", "False"), ("C", "True")]
