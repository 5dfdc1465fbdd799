"""The findings of a check, as text for people and as JSON for machines."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

HEALTHY, UNHEALTHY, UNSEEN = 0, 1, 2
"""The exit codes of ``tsoperator check``."""


class Verdict(StrEnum):
    """The result of a check of one thing: it is well, something is wrong with it, or we could not look."""

    OK = "ok"
    FAILED = "FAILED"
    UNSEEN = "can't look"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, the observed fact in *words*, and in *cure* what to do about it."""

    check: str
    verdict: Verdict
    words: str
    cure: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.words}" + (f"\n    To do: {self.cure}" if self.cure else "")


def ok(check: str, words: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(check, Verdict.OK, words)


def failed(check: str, words: str, cure: str) -> Finding:
    """Return the finding that something is wrong, which *words* describe."""
    return Finding(check, Verdict.FAILED, words, cure)


def unseen(check: str, words: str, cure: str) -> Finding:
    """Return the finding that we could not look at something."""
    return Finding(check, Verdict.UNSEEN, words, cure)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code for *findings*.

    It says that something is wrong, or else that something could not be looked at, or else that all is well.
    """
    verdicts = {each.verdict for each in findings}
    if Verdict.FAILED in verdicts:
        return UNHEALTHY
    return UNSEEN if Verdict.UNSEEN in verdicts else HEALTHY


def as_text(findings: Iterable[Finding]) -> str:
    """Return the findings as text for people.

    Each is printed once, even if both the metrics and the objects of the cluster show the fault.
    """
    return "\n".join(dict.fromkeys(map(str, findings)))


def as_json(findings: Iterable[Finding]) -> str:
    """Return the findings as one JSON object, with ``healthy`` and the list ``findings``."""
    listed = [*findings]
    shown = [
        {"check": each.check, "verdict": each.verdict.name.lower(), "message": each.words, "cure": each.cure}
        for each in listed
    ]
    return json.dumps({"healthy": exit_code(listed) == HEALTHY, "findings": shown}, indent=2)
