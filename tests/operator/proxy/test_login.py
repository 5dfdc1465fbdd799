"""Messages and Events about proxies that can't log in any more."""

import pytest
from tsoperator.proxy.login import login_notes, login_problem
from tsoperator.proxy.secret import Reissue

NO, ASKED, ANSWERED = Reissue.NOT_ASKED, Reissue.ASKED, Reissue.ANSWERED
GIVEN, LATER = "A new auth key has been given", "Another auth key is given within 30 s"


@pytest.mark.parametrize(
    ("asking", "auth_keys", "words", "reasons"),
    [
        ([NO], {}, [], []),
        ([NO], {0: "first"}, [], []),
        ([ASKED], {}, [], []),
        ([ASKED], {0: "new"}, ["the proxy could not", GIVEN], ["AuthKeyReissued"]),
        ([ASKED], {0: ""}, ["the proxy could not", LATER], ["AuthKeyDelayed"]),
        ([ANSWERED], {}, ["the proxy could not", GIVEN], []),
        ([ANSWERED], {0: "kept"}, ["the proxy could not", GIVEN], []),
        ([NO, ANSWERED], {}, ["replica 1 could not", GIVEN], []),
        (
            [ASKED, ANSWERED, ASKED],
            {0: "new", 2: ""},
            ["replica 0, 1 could not", GIVEN, "replica 2 could not", LATER],
            ["AuthKeyReissued", "AuthKeyDelayed"],
        ),
    ],
)
def test_messages_about_failed_logins_say_which_replicas_get_an_auth_key_now_and_which_later(
    asking: list[Reissue], auth_keys: dict[int, str], words: list[str], reasons: list[str]
) -> None:
    by_replica = dict(enumerate(asking))
    problem = login_problem(by_replica, auth_keys)
    assert bool(problem) is bool(words)
    assert [word for word in words if word not in problem] == []
    assert [note.reason for note in login_notes(by_replica, auth_keys)] == reasons
