"""The findings of a check, as text for people and as JSON for machines."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tsoperator.check.terminal import Colour, printable

HEALTHY, UNHEALTHY, UNSEEN = 0, 1, 2
"""The exit codes of ``tsoperator check``."""

OBJECTS: Final = "objects"
"""The name of the check of users' objects, by the leader's report or by our own look."""


class Verdict(StrEnum):
    """The result of a check: the thing is well, waits for something, is wrong, or could not be looked at."""

    OK = "ok"
    WAITING = "waiting"
    FAILED = "FAILED"
    UNSEEN = "can't look"


_COUNTED: Final = {
    Verdict.OK: "ok",
    Verdict.FAILED: "to mend",
    Verdict.WAITING: "waiting",
    Verdict.UNSEEN: "could not be looked at",
}
"""The words for the verdicts in the last line of a check, in the order of that line."""

_COLOURS: Final = {Verdict.OK: Colour.GREEN, Verdict.FAILED: Colour.RED}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, the observed fact in *words*, and advice in *cure*.

    *things* is the number of things that the finding is about, such as the number of objects that are well. *about* is
    the Tailnet that the finding is about, or empty. *explains* is the name of another check, or a Tailnet: findings
    about its faults can be left out, because this finding explains these faults.
    """

    check: str
    verdict: Verdict
    words: str
    cure: str = ""
    things: int = 1
    about: str = ""
    explains: str = ""

    def __str__(self) -> str:
        return self.text()

    def text(self, *, coloured: bool = False) -> str:
        """Return the finding as text for people."""
        colour = _COLOURS.get(self.verdict, Colour.YELLOW) if coloured else Colour.NONE
        cure = f"\n    To do: {printable(self.cure)}" if self.cure else ""
        return f"{colour.paint(self.verdict)}: {printable(self.words)}{cure}"


def ok(check: str, words: str, things: int = 1) -> Finding:
    """Return the finding that something is well. *things* is the number of things that it is about."""
    return Finding(check, Verdict.OK, words, things=things)


def waiting(check: str, words: str, cure: str = "") -> Finding:
    """Return the finding that something isn't well yet, but usually becomes so without help."""
    return Finding(check, Verdict.WAITING, words, cure)


def failed(check: str, words: str, cure: str) -> Finding:
    """Return the finding that something is wrong. *words* describe the fault, and *cure* says what to do."""
    return Finding(check, Verdict.FAILED, words, cure)


def unseen(check: str, words: str, cure: str) -> Finding:
    """Return the finding that we could not look at something."""
    return Finding(check, Verdict.UNSEEN, words, cure)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code for *findings*.

    It is `UNHEALTHY` if something is wrong or waits, else `UNSEEN` if something could not be looked at, else `HEALTHY`.
    """
    verdicts = {each.verdict for each in findings}
    if verdicts & {Verdict.FAILED, Verdict.WAITING}:
        return UNHEALTHY
    return UNSEEN if Verdict.UNSEEN in verdicts else HEALTHY


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* without repetitions, which occur if both metrics and objects show a fault."""
    return [*{str(each): each for each in findings}.values()]


def as_text(findings: Iterable[Finding], *, coloured: bool = False) -> str:
    """Return the findings as text for people, with a last line that counts them."""
    listed = distinct(findings)
    return "\n".join([*(each.text(coloured=coloured) for each in listed), _sum(listed)])


def as_json(findings: Iterable[Finding]) -> str:
    """Return the findings as one JSON object, with ``healthy``, the list ``findings`` and their number by verdict."""
    listed = distinct(findings)
    shown = [
        {"check": each.check, "verdict": each.verdict.name.lower(), "message": each.words, "cure": each.cure}
        for each in listed
    ]
    counts = {verdict.name.lower(): count for verdict, count in _counts(listed).items()}
    return json.dumps({"healthy": exit_code(listed) == HEALTHY, "findings": shown, "counts": counts}, indent=2)


def _sum(findings: Iterable[Finding]) -> str:
    counts = _counts(findings)
    told = [verdict for verdict in _COUNTED if counts[verdict] or verdict in (Verdict.OK, Verdict.FAILED)]
    return ", ".join(f"{counts[verdict]} {_COUNTED[verdict]}" for verdict in told)


def _counts(findings: Iterable[Finding]) -> Counter[Verdict]:
    counts = Counter(dict.fromkeys(Verdict, 0))
    for each in findings:
        counts[each.verdict] += each.things
    return counts
