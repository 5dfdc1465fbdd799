"""The findings of a check in the form for people and in the form for machines, and the exit code."""

import json

import pytest
from tsoperator.check.findings import Finding, as_json, as_text, exit_code, failed, ok, unseen

WELL = ok("leader", "it leads")
WRONG = failed("leader", "none leads", "look at the log")
BLIND = unseen("devices", "no answer", "try again")


@pytest.mark.parametrize(
    ("findings", "code"),
    [([], 0), ([WELL], 0), ([WELL, WRONG], 1), ([WELL, BLIND], 2), ([BLIND, WRONG], 1)],
)
def test_the_exit_code_is_that_of_the_worst_finding(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code
    assert json.loads(as_json(findings))["healthy"] is (code == 0)


def test_the_text_for_people_has_the_cure_below_the_words() -> None:
    assert as_text([WELL, WRONG, BLIND, WELL]).splitlines() == [
        "ok: it leads",
        "FAILED: none leads",
        "    To do: look at the log",
        "can't look: no answer",
        "    To do: try again",
    ]


def test_the_json_for_machines_has_each_part_of_a_finding() -> None:
    assert json.loads(as_json([BLIND]))["findings"] == [
        {"check": "devices", "verdict": "unseen", "message": "no answer", "cure": "try again"}
    ]
