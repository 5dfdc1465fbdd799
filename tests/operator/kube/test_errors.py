import pytest
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, Gone, NotFound, Rejected, StatusError, error_of


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", Rejected),
        (401, "Unauthorized", Denied),
        (403, "Forbidden", Denied),
        (404, "NotFound", NotFound),
        (404, "", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Gone", Gone),
        (410, "Expired", Gone),
        (500, "Expired", Gone),
        (422, "Invalid", Rejected),
        (429, "TooManyRequests", StatusError),
        (500, "InternalError", StatusError),
        (503, "", StatusError),
    ],
)
def test_a_refusal_is_told_by_what_can_be_done_about_it(status: int, reason: str, kind: type[StatusError]) -> None:
    error = error_of(status, {"reason": reason, "message": "no"}, "GET /x")
    assert type(error) is kind
    assert (error.status, error.reason) == (status, reason)


def test_a_refusal_says_what_was_asked_and_what_was_answered() -> None:
    assert str(error_of(404, {"message": 'pods "a" not found'}, "GET /x")) == 'GET /x: pods "a" not found'


@pytest.mark.parametrize("body", [{}, {"message": None}, {"message": ""}])
def test_a_refusal_without_words_says_its_code(body: dict[str, str | None]) -> None:
    assert str(error_of(503, body, "GET /x")) == "GET /x: HTTP 503"
