"""The ends of HTTP bodies, and the form in which the API server gets the body of a request."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadBody
from tsoperator.apiproxy.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, AnswerBody, BodyKind, Framing, RequestBody

NEXT = b"GET /next HTTP/1.1\r\n"


class Case(NamedTuple):
    """A body of some *kind*, and the bytes that the API server gets for it."""

    kind: BodyKind
    raw: bytes
    forwarded: bytes


CASES = {
    "no body": Case(NO_BODY, b"", b""),
    "no bytes": Case(BodyKind(Framing.LENGTH, 0), b"", b""),
    "a length": Case(BodyKind(Framing.LENGTH, 5), b"hello", b"hello"),
    "chunks": Case(CHUNKED, b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"),
    "no chunks": Case(CHUNKED, b"0\r\n\r\n", b"0\r\n\r\n"),
    "a size in other digits": Case(CHUNKED, b"00A\r\n0123456789\r\n000\r\n\r\n", b"a\r\n0123456789\r\n0\r\n\r\n"),
    "data that looks like a chunk": Case(CHUNKED, b"5\r\n\r\n0\r\n\r\n0\r\n\r\n", b"5\r\n\r\n0\r\n\r\n0\r\n\r\n"),
    "extensions": Case(CHUNKED, b'5;a="b;c" ; d\r\nhello\r\n0 ;\xe9=1\r\n\r\n', b"5\r\nhello\r\n0\r\n\r\n"),
    "trailers": Case(CHUNKED, b"0\r\nImpersonate-User: bob\r\nAuthorization:\r\n\r\n", b"0\r\n\r\n"),
    "most trailers": Case(CHUNKED, b"0\r\n" + (b"a: " + b"b" * 59 + b"\r\n") * 64 + b"\r\n", b"0\r\n\r\n"),
    "the longest extension": Case(CHUNKED, b"0;" + b"x" * 250 + b"\r\n\r\n", b"0\r\n\r\n"),
}  # fmt: skip
"""The bodies that are complete."""

REFUSED = {
    "an empty line": b"\r\n",
    "no size": b";a=b\r\n",
    "a sign": b"+5\r\n",
    "a negative size": b"-5\r\n",
    "a prefix": b"0x5\r\n",
    "an underscore": b"1_0\r\n",
    "a space before the size": b" 5\r\n",
    "a size of 17 digits": b"00000000000000005\r\n",
    "a bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare CR after the size": b"5\rhello\r\n0\r\n\r\n",
    "a bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "a control character in an extension": b"5;a=\0\r\nhello\r\n0\r\n\r\n",
    "an extension without a semicolon": b"5 a=b\r\nhello\r\n0\r\n\r\n",
    "a long extension": b"5;" + b"x" * 255 + b"\r\nhello\r\n0\r\n\r\n",
    "a long extension without an end": b"5;" + b"x" * 255,
    "data that is longer than its size": b"5\r\nhello!\r\n0\r\n\r\n",
    "a bare LF after data": b"5\r\nhello\n0\r\n\r\n",
    "nothing after data": b"5\r\nhello0\r\n\r\n",
    "a folded trailer": b"0\r\na: b\r\n c\r\n\r\n",
    "a trailer without a colon": b"0\r\nab\r\n\r\n",
    "a trailer with a space before the colon": b"0\r\na : b\r\n\r\n",
    "a bare LF after a trailer": b"0\r\na: b\n\r\n",
    "a bare LF after the last chunk": b"0\r\n\n",
    "a control character in a trailer": b"0\r\na: \x7f\r\n\r\n",
    "too many trailers": b"0\r\n" + (b"a: " + b"b" * 59 + b"\r\n") * 64 + b"a: b\r\n\r\n",
}
"""Chunked bodies that are refused."""


def pieces(raw: bytes, cuts: Iterable[int]) -> Sequence[bytes]:
    """Return *raw* in pieces that end at the *cuts*."""
    ends = [0, *sorted({min(cut, len(raw)) for cut in cuts}), len(raw)]
    return [raw[start:end] for start, end in pairwise(ends)]


def fed(body: RequestBody, data: Sequence[bytes]) -> tuple[bytes, int]:
    """Return all bytes that *body* forwards, and how many bytes of *data* belong to the body."""
    results = [body.feed(piece) for piece in data]
    return b"".join(forwarded for forwarded, _ in results), sum(used for _, used in results)


cuts = st.lists(st.integers(0, 300), max_size=20)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@given(cuts)
def test_a_request_body_is_forwarded_in_the_framing_of_the_proxy_however_its_bytes_are_cut(
    case: Case, cuts: list[int]
) -> None:
    body = RequestBody(case.kind)
    assert fed(body, pieces(case.raw + NEXT, cuts)) == (case.forwarded, len(case.raw))
    assert body.is_complete


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@given(cuts)
def test_the_end_of_the_body_of_an_answer_is_found_however_its_bytes_are_cut(case: Case, cuts: list[int]) -> None:
    body = AnswerBody(case.kind)
    assert sum(body.feed(memoryview(piece)) for piece in pieces(case.raw + NEXT, cuts)) == len(case.raw)
    assert body.is_complete


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_body_is_complete_with_its_last_byte(case: Case) -> None:
    body = RequestBody(case.kind)
    states = [body.is_complete]
    for at in range(len(case.raw)):
        body.feed(case.raw[at : at + 1])
        states.append(body.is_complete)
    assert states == [False] * len(case.raw) + [True]


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
@given(cuts)
def test_a_malformed_chunk_or_trailer_of_a_body_is_refused_however_its_bytes_are_cut(
    raw: bytes, cuts: list[int]
) -> None:
    with pytest.raises(BadBody) as refusal:
        fed(RequestBody(CHUNKED), pieces(raw, cuts))
    assert refusal.value.status == 400


def test_the_error_for_a_malformed_chunk_of_an_answer_has_status_502() -> None:
    with pytest.raises(BadBody) as refusal:
        AnswerBody(CHUNKED).feed(b"x")
    assert refusal.value.status == 502


def test_all_bytes_belong_to_a_body_that_lasts_until_the_end_of_the_connection() -> None:
    body = AnswerBody(UNTIL_CLOSE)
    assert [body.feed(b"HTTP/1.1 200 OK\r\n"), body.feed(bytearray(70000)), body.is_complete] == [17, 70000, False]


def test_data_is_forwarded_before_its_chunk_is_complete() -> None:
    body = RequestBody(CHUNKED)
    assert [body.feed(piece)[0] for piece in (b"6", b"\r\nab", b"cd", b"ef", b"\r\n0\r\n", b"\r\n")] == [
        b"",
        b"6\r\nab",
        b"cd",
        b"ef\r\n",
        b"0\r\n",
        b"\r\n",
    ]


parts = st.sampled_from(
    [b"\r\n", b"\r", b"\n", b"0", b"5", b"a", b";", b"hello", b"a: b", b" ", b"\0", b"\r\n0\r\n\r\n"]
)


@given(st.binary(max_size=600) | st.lists(parts, max_size=12).map(b"".join), cuts)
def test_a_body_of_random_bytes_is_refused_or_forwarded_in_the_framing_of_the_proxy(
    random: bytes, cuts: list[int]
) -> None:
    body = RequestBody(CHUNKED)
    try:
        forwarded, used = fed(body, pieces(random, cuts))
    except BadBody:
        return
    assert fed(RequestBody(CHUNKED), [forwarded]) == (forwarded, len(forwarded))
    assert body.is_complete or used == len(random)
