"""The Event about the names and addresses at which an object can be reached, which is written only once."""

from typing import NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import Object
from tsoperator.runtime.plan import Note, Plan
from tsoperator.runtime.success import device_words, with_success

WORDS = "it is reached at 192.0.2.1"


class Case(NamedTuple):
    """The status and message of the condition *before* and *after* a reconcile, and whether there is an Event."""

    before: tuple[bool | str, str] | None
    after: tuple[bool | str, str]
    tells: bool


CASES = {
    "new": Case(None, (True, WORDS), True),
    "wasn't ready": Case((False, "wait"), (True, WORDS), True),
    "wasn't ready at the same place": Case((False, WORDS), (True, WORDS), True),
    "wasn't known": Case(("Unknown", "wait"), (True, WORDS), True),
    "is not ready": Case((False, "wait"), (False, WORDS), False),
    "says so already": Case((True, f"{WORDS}; and more"), (True, f"{WORDS}; and other things"), False),
    "is reached elsewhere": Case((True, "it is reached at 192.0.2.7"), (True, WORDS), True),
    "was ready for the Go operator": Case((True, "Made"), (True, WORDS), False),
}


def shown(found: tuple[bool | str, str] | None) -> list[Object]:
    return [condition("Ready", found[0], "Made", found[1])] if found else []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_event_is_written_when_an_object_becomes_ready_or_can_be_reached_elsewhere(case: Case) -> None:
    plan = with_success(Plan(status={"conditions": shown(case.after)}), shown(case.before), "Ready", WORDS)
    assert [*plan.notes] == [Note("Normal", "Made", WORDS, once=True)] * case.tells


def test_the_event_about_a_reachable_object_has_the_message_of_the_condition_if_no_words_are_given() -> None:
    plan = Plan(status={"conditions": shown((True, "all is well"))})
    assert [note.message for note in with_success(plan, [], "Ready").notes] == ["all is well"]
    assert with_success(plan, [], "Ready", "") == with_success(plan, [], "Other") == plan


def test_an_event_names_devices_with_their_addresses() -> None:
    assert device_words([("a.ts.net", ["100.64.0.1", "fd7a::1"]), ("b.ts.net", ())]) == (
        "a.ts.net (100.64.0.1, fd7a::1) and b.ts.net"
    )
