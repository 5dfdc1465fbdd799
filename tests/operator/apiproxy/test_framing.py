"""Where bodies end, and what the API server gets of the body of a request."""

from tsoperator.apiproxy.framing import CHUNKED, AnswerBody, RequestBody

BODY = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nImpersonate-User: bob\r\n\r\n"


def test_a_chunked_body_loses_extensions_and_trailers_in_whatever_pieces_it_comes() -> None:
    for size in range(1, len(BODY) + 1):
        body, answer = RequestBody(CHUNKED), AnswerBody(CHUNKED)
        pieces = [BODY[at : at + size] for at in range(0, len(BODY), size)]
        assert b"".join(body.feed(piece)[0] for piece in pieces) == b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
        assert sum(answer.feed(piece) for piece in pieces) == len(BODY)
        assert (body.is_complete, answer.is_complete) == (True, True)
