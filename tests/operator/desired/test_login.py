"""What is said of proxies that can't log in any more."""

from typing import NamedTuple

import pytest
from tsoperator.desired.login import login_notes, login_problem
from tsoperator.desired.secret import Reissue

NO, ASKED, ANSWERED = Reissue.NOT_ASKED, Reissue.ASKED, Reissue.ANSWERED
GIVEN, LATER = "A new auth key has been given", "Another auth key is given within 30 s"


class Case(NamedTuple):
    asking: list[Reissue]
    auth_keys: dict[int, str]
    words: list[str]
    reasons: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Case([NO], {}, [], []),
        Case([NO], {0: "first"}, [], []),
        Case([ASKED], {}, [], []),
        Case([ASKED], {0: "new"}, ["the proxy could not", GIVEN], ["AuthKeyReissued"]),
        Case([ASKED], {0: ""}, ["the proxy could not", LATER], ["AuthKeyDelayed"]),
        Case([ANSWERED], {}, ["the proxy could not", GIVEN], []),
        Case([ANSWERED], {0: "kept"}, ["the proxy could not", GIVEN], []),
        Case([NO, ANSWERED], {}, ["replica 1 could not", GIVEN], []),
        Case(
            [ASKED, ANSWERED, ASKED],
            {0: "new", 2: ""},
            ["replica 0, 1 could not", GIVEN, "replica 2 could not", LATER],
            ["AuthKeyReissued", "AuthKeyDelayed"],
        ),
    ],
)
def test_each_step_is_told_and_an_event_tells_of_a_key_once(case: Case) -> None:
    asking = dict(enumerate(case.asking))
    problem = login_problem(asking, case.auth_keys)
    assert [word for word in case.words if word not in problem] == []
    assert bool(problem) is bool(case.words)
    notes = login_notes(asking, case.auth_keys)
    assert [note.reason for note in notes] == case.reasons
