"""The findings of a check in the form for people and in the form for machines, and the exit code."""

import json

import pytest
from tsoperator.check.findings import Finding, as_json, as_text, exit_code, failed, ok, unseen, waiting

WELL = ok("leader", "it leads")
WRONG = failed("leader", "none leads", "look at the log")
BLIND = unseen("devices", "no answer", "try again")
LATE = waiting("objects", "it starts")


@pytest.mark.parametrize(
    ("findings", "code"),
    [([], 0), ([WELL], 0), ([WELL, WRONG], 1), ([WELL, BLIND], 2), ([BLIND, WRONG], 1), ([BLIND, LATE], 1)],
)
def test_the_exit_code_is_that_of_the_worst_finding(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code
    assert json.loads(as_json(findings))["healthy"] is (code == 0)


def test_the_text_for_people_has_the_cure_in_the_line_below_the_fault() -> None:
    assert as_text([WELL, WRONG, BLIND, WELL]).splitlines() == [
        "ok: it leads",
        "FAILED: none leads",
        "    To do: look at the log",
        "can't look: no answer",
        "    To do: try again",
        "1 ok, 1 to mend, 1 could not be looked at",
    ]
    assert as_text([ok("objects", "they work", 8), WELL, LATE]).splitlines()[-1] == "9 ok, 0 to mend, 1 waiting"


def test_a_terminal_gets_our_colours_and_no_control_characters_from_texts_of_users() -> None:
    lines = as_text([WELL, failed("objects", "\x1b[2Jgone", "")], coloured=True).splitlines()
    assert lines[:2] == ["\x1b[32mok\x1b[0m: it leads", "\x1b[31mFAILED\x1b[0m: \\x1b[2Jgone"]


def test_the_json_for_machines_has_each_part_of_a_finding() -> None:
    assert json.loads(as_json([BLIND]))["findings"] == [
        {"check": "devices", "verdict": "unseen", "message": "no answer", "cure": "try again"}
    ]
