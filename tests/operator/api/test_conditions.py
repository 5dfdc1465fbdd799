"""Conditions of an object's status."""

from copy import deepcopy
from typing import NamedTuple

import pytest
from tsoperator.api.conditions import condition, remove_condition, set_condition
from tsoperator.api.objects import Object

THEN = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"


def ready(status: bool | str, reason: str = "Because", generation: int | None = 3) -> Object:
    return condition("Ready", status, reason, "words", generation)


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), ("Unknown", "Unknown")])
def test_a_condition_has_a_word_for_its_status_and_no_time_before_it_is_set(status: bool | str, word: str) -> None:
    bare = {"type": "Ready", "status": word, "reason": "Because", "message": "words"}
    assert ready(status, generation=None) == bare
    assert ready(status) == {**bare, "observedGeneration": 3}


def test_a_message_that_the_api_server_would_refuse_is_cut() -> None:
    assert len(condition("Ready", False, "Because", "x" * 40000)["message"]) == 32768


class Case(NamedTuple):
    before: list[Object]
    after: Object
    time: str


OLD = {**ready(False, "Old", 3), "lastTransitionTime": THEN}


@pytest.mark.parametrize(
    "case",
    [
        Case([], ready(True), NOW),
        Case([OLD], ready(False, "Old", 3), THEN),
        Case([OLD], ready(False, "New", 4), THEN),
        Case([OLD], ready(True, "Old", 3), NOW),
        Case([ready(True)], ready(True), NOW),
    ],
    ids=["new", "as before", "another reason", "another status", "without a time"],
)
def test_the_time_of_a_condition_is_that_of_its_status(case: Case) -> None:
    before = deepcopy(case.before)
    assert set_condition(case.before, [case.after], NOW) == [{**case.after, "lastTransitionTime": case.time}]
    assert case.before == before


def test_conditions_keep_their_order_and_new_types_come_last() -> None:
    before = set_condition([], [condition("B", True, "Yes", ""), condition("A", True, "Yes", "")], THEN)
    after = set_condition(before, [condition("C", True, "Yes", ""), condition("A", False, "No", "")], NOW)
    assert [(each["type"], each["status"]) for each in after] == [("B", "True"), ("A", "False"), ("C", "True")]


def test_a_removed_condition_leaves_the_others() -> None:
    assert remove_condition([ready(True), condition("Other", True, "Yes", "")], "Ready") == [
        condition("Other", True, "Yes", "")
    ]
