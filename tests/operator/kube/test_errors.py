import pytest
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, Gone, NotFound, Rejected, StatusError, error_of


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        (Rejected, [(400, "BadRequest"), (422, "Invalid")]),
        (Denied, [(401, "Unauthorized"), (403, "Forbidden")]),
        (NotFound, [(404, "NotFound"), (404, "")]),
        (Conflict, [(409, "Conflict")]),
        (AlreadyExists, [(409, "AlreadyExists")]),
        (Gone, [(410, "Gone"), (410, "Expired"), (500, "Expired")]),
        (StatusError, [(429, "TooManyRequests"), (500, "InternalError"), (503, "")]),
    ],
)
def test_the_class_of_an_error_follows_from_its_status_and_reason(
    kind: type[StatusError], answers: list[tuple[int, str]]
) -> None:
    for status, reason in answers:
        error = error_of(status, {"reason": reason, "message": "no"}, "GET /x")
        assert (type(error), error.status, error.reason) == (kind, status, reason)


def test_an_error_names_the_request_and_the_words_or_the_code_of_the_answer() -> None:
    assert str(error_of(404, {"message": 'pods "a" not found'}, "GET /x")) == 'GET /x: pods "a" not found'
    for body in ({}, {"message": None}, {"message": ""}):
        assert str(error_of(503, body, "GET /x")) == "GET /x: HTTP 503"


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [(429, "1", 1), (503, "30", 30), (500, "86400", 60), (409, "5", 0), (429, "", 0), (429, "-1", 0), (503, "soon", 0)],
)
def test_an_error_has_the_time_after_which_a_busy_server_wants_the_next_request(
    status: int, retry_after: str, seconds: float
) -> None:
    assert error_of(status, {}, "GET /x", retry_after).retry_after == seconds
