from typing import NamedTuple

import pytest
from tsoperator.kube.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Gone,
    NotFound,
    Rejected,
    StatusError,
    error_of,
)


class Case(NamedTuple):
    status: int
    reason: str
    kind: type[StatusError]


@pytest.mark.parametrize(
    "case",
    [
        Case(400, "BadRequest", Rejected),
        Case(401, "Unauthorized", Denied),
        Case(403, "Forbidden", Denied),
        Case(404, "NotFound", NotFound),
        Case(404, "", NotFound),
        Case(409, "Conflict", Conflict),
        Case(409, "AlreadyExists", AlreadyExists),
        Case(410, "Gone", Gone),
        Case(410, "Expired", Gone),
        Case(500, "Expired", Gone),
        Case(422, "Invalid", Rejected),
        Case(429, "TooManyRequests", StatusError),
        Case(500, "InternalError", StatusError),
        Case(503, "", StatusError),
    ],
)
def test_a_refusal_is_told_by_what_can_be_done_about_it(case: Case) -> None:
    error = error_of(case.status, {"reason": case.reason, "message": "no"}, "GET /x")
    assert type(error) is case.kind
    assert (error.status, error.reason) == (case.status, case.reason)


def test_a_refusal_says_what_was_asked_and_what_was_answered() -> None:
    assert str(error_of(404, {"message": 'pods "a" not found'}, "GET /x")) == 'GET /x: pods "a" not found'


@pytest.mark.parametrize("body", [{}, {"message": None}, {"message": ""}])
def test_a_refusal_without_words_says_its_code(body: dict[str, str | None]) -> None:
    assert str(error_of(503, body, "GET /x")) == "GET /x: HTTP 503"
