"""Conditions of an object's status."""

import pytest
from tsoperator.api.conditions import (
    condition,
    remove_condition,
    set_condition,
)
from tsoperator.api.objects import Object

THEN = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"


def ready(status: bool | str, reason: str = "Because", generation: int | None = 3) -> Object:
    return condition("Ready", status, reason, "words", generation)


def with_conditions(*conditions: Object, generation: int = 3) -> Object:
    return {"metadata": {"name": "a", "generation": generation}, "status": {"conditions": list(conditions)}}


def test_a_condition_has_no_time_before_it_is_set() -> None:
    assert ready(True) == {
        "type": "Ready",
        "status": "True",
        "reason": "Because",
        "message": "words",
        "observedGeneration": 3,
    }


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), ("Unknown", "Unknown")])
def test_a_status_is_a_word(status: bool | str, word: str) -> None:
    assert ready(status)["status"] == word


def test_a_service_condition_has_no_generation() -> None:
    assert "observedGeneration" not in ready(True, generation=None)


def test_a_message_that_the_api_server_would_refuse_is_cut() -> None:
    assert len(condition("Ready", False, "Because", "x" * 40000)["message"]) == 32768


def test_a_new_condition_gets_the_time() -> None:
    assert set_condition([], [ready(True)], NOW) == [{**ready(True), "lastTransitionTime": NOW}]


def test_a_status_that_stays_keeps_its_time_though_the_rest_changes() -> None:
    before = set_condition([], [ready(False, "Old", 3)], THEN)
    after = set_condition(before, [ready(False, "New", 4)], NOW)
    assert after == [{**ready(False, "New", 4), "lastTransitionTime": THEN}]


def test_a_status_that_changes_gets_the_time() -> None:
    before = set_condition([], [ready(False)], THEN)
    assert set_condition(before, [ready(True)], NOW)[0]["lastTransitionTime"] == NOW


def test_an_unchanged_condition_leaves_the_list_equal() -> None:
    before = set_condition([], [ready(True), condition("Other", False, "No", "")], THEN)
    assert set_condition(before, [ready(True)], NOW) == before


def test_conditions_keep_their_order_and_new_types_come_last() -> None:
    before = set_condition([], [condition("B", True, "Yes", ""), condition("A", True, "Yes", "")], THEN)
    after = set_condition(before, [condition("C", True, "Yes", ""), condition("A", False, "No", "")], NOW)
    assert [(each["type"], each["status"]) for each in after] == [("B", "True"), ("A", "False"), ("C", "True")]


def test_setting_a_condition_leaves_the_old_list_alone() -> None:
    before = set_condition([], [ready(True)], THEN)
    set_condition(before, [ready(False)], NOW)
    assert before == [{**ready(True), "lastTransitionTime": THEN}]


def test_a_condition_without_a_time_gets_one() -> None:
    assert set_condition([ready(True)], [ready(True)], NOW)[0]["lastTransitionTime"] == NOW


def test_a_removed_condition_leaves_the_others() -> None:
    assert remove_condition([ready(True), condition("Other", True, "Yes", "")], "Ready") == [
        condition("Other", True, "Yes", "")
    ]
