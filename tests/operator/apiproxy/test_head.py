"""Heads of HTTP requests and answers: those that the proxy refuses, and how it rewrites those that it forwards."""

from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.errors import BadHead
from tsoperator.apiproxy.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyKind, Framing
from tsoperator.apiproxy.head import (
    MOST_ANSWER_BYTES,
    MOST_BYTES,
    MOST_HEADERS,
    RequestHead,
    answer_length,
    answered,
    forwarded,
    head_length,
    parse_answer,
    parse_request,
)

GET = b"GET / HTTP/1.1"
POST = b"POST / HTTP/1.1"
HOST = b"Host: a.example.org"
UPGRADE = b"Connection: Upgrade"


def head(*lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in (*lines, b""))


def length(number: int) -> BodyKind:
    return BodyKind(Framing.LENGTH, number)


class Forwarded(NamedTuple):
    """The head of a request, and the head that the API server gets for it."""

    raw: bytes
    wanted: bytes


FORWARDED = {
    "a plain request": Forwarded(head(GET, HOST, b"Accept: */*"), head(GET, HOST, b"Accept: */*")),
    "the host comes first": Forwarded(head(GET, b"A: b", HOST), head(GET, HOST, b"A: b")),
    "a host with a port": Forwarded(head(GET, b"HOST:[2001:db8::1]:443 "), head(GET, b"Host: [2001:db8::1]:443")),
    "most headers": Forwarded(*[head(GET, HOST, *[b"A: "] * (MOST_HEADERS - 1))] * 2),
    "an empty host": Forwarded(head(GET, b"Host:"), head(GET, b"Host: ")),
    "white space around values": Forwarded(head(GET, HOST, b"A:\t b \tc \t"), head(GET, HOST, b"A: b \tc")),
    "spelling, order and repetition of headers": Forwarded(
        head(GET, HOST, b"x-B: 1", b"a: 2", b"X-b: 3"), head(GET, HOST, b"x-B: 1", b"a: 2", b"X-b: 3")
    ),
    "odd names and values": Forwarded(
        head(GET, HOST, b"!#$%&'*+-.^_`|~9z: \xe9\xff", b"Empty:"),
        head(GET, HOST, b"!#$%&'*+-.^_`|~9z: \xe9\xff", b"Empty: "),
    ),
    "another method": Forwarded(head(b"re-NDER / HTTP/1.1", HOST), head(b"re-NDER / HTTP/1.1", HOST)),
    "a length": Forwarded(head(POST, HOST, b"content-length: 5"), head(POST, HOST, b"Content-Length: 5")),
    "no bytes": Forwarded(head(POST, HOST, b"Content-Length: 0"), head(POST, HOST, b"Content-Length: 0")),
    "zeros before a length": Forwarded(head(POST, HOST, b"Content-Length: 05"), head(POST, HOST, b"Content-Length: 5")),
    "chunks": Forwarded(
        head(POST, HOST, b"transfer-encoding: CHUNKED"), head(POST, HOST, b"Transfer-Encoding: chunked")
    ),
    "credentials": Forwarded(
        head(GET, HOST, b"Authorization: Bearer x", b"Impersonate-User: bob", b"Impersonate-Extra-a: b", b"Cookie: c"),
        head(GET, HOST, b"Authorization: Bearer x", b"Impersonate-User: bob", b"Impersonate-Extra-a: b", b"Cookie: c"),
    ),
    "an expectation": Forwarded(
        head(POST, HOST, b"Expect: 100-continue", b"Content-Length: 5"),
        head(POST, HOST, b"Expect: 100-continue", b"Content-Length: 5"),
    ),
    "headers for one connection": Forwarded(
        head(
            GET, HOST, b"connection: close", b"KEEP-ALIVE: 5", b"Proxy-Connection: close", b"Proxy-Authenticate: Basic",
            b"Proxy-Authorization: Basic x", b"TE: gzip", b"Trailer: A", b"Upgrade: websocket", b"A: b",
        ),
        head(GET, HOST, b"A: b"),
    ),
    "headers that Connection names": Forwarded(
        head(GET, HOST, b"Connection: x-a, ,Authorization", b"X-A: 1", b"X-B: 2", b"authorization: b",
             b"connection: X-B,IMPERSONATE-USER", b"Impersonate-User: bob", b"X-C: 3"),
        head(GET, HOST, b"X-C: 3"),
    ),
    "Connection can't name the host and the length": Forwarded(
        head(POST, HOST, b"Connection: Host, Content-Length", b"Content-Length: 5"),
        head(POST, HOST, b"Content-Length: 5"),
    ),
    "Connection can't name the coding": Forwarded(
        head(POST, HOST, b"Connection: Transfer-Encoding", b"Transfer-Encoding: chunked"),
        head(POST, HOST, b"Transfer-Encoding: chunked"),
    ),
    "trailers in answers": Forwarded(head(GET, HOST, b"TE: deflate, Trailers"), head(GET, HOST, b"TE: trailers")),
    "addresses of other proxies": Forwarded(
        head(GET, HOST, b"forwarded: for=a", b"X-Forwarded-For: a", b"X-FORWARDED-HOST: a", b"x-forwarded-proto: a"),
        head(GET, HOST),
    ),
    "WebSocket": Forwarded(
        head(GET, HOST, b"Connection: keep-alive, upgrade", b"Upgrade: WebSocket", b"Sec-WebSocket-Key: x"),
        head(GET, HOST, b"Sec-WebSocket-Key: x", UPGRADE, b"Upgrade: websocket"),
    ),
    "SPDY": Forwarded(
        head(POST, HOST, UPGRADE, b"Upgrade: spdy/3.1", b"Content-Length: 0"),
        head(POST, HOST, b"Content-Length: 0", UPGRADE, b"Upgrade: SPDY/3.1"),
    ),
    "Upgrade without Connection": Forwarded(head(GET, HOST, b"Upgrade: h2c"), head(GET, HOST)),
    "Connection without Upgrade": Forwarded(head(GET, HOST, UPGRADE), head(GET, HOST)),
}  # fmt: skip


class Refused(NamedTuple):
    """The head of a request, and the status and the reason of its refusal."""

    raw: bytes
    status: int
    reason: str


REFUSED = {
    "two hosts": Refused(head(GET, HOST, b"host: b.example.org"), 400, "host"),
    "two equal hosts": Refused(head(GET, HOST, HOST), 400, "host"),
    "no host": Refused(head(GET), 400, "host"),
    "an odd host": Refused(head(GET, b"Host: a@b"), 400, "host"),
    "a list of hosts": Refused(head(GET, b"Host: a.example.org b.example.org"), 400, "host"),
    "both lengths": Refused(
        head(POST, HOST, b"Content-Length: 5", b"Transfer-Encoding: chunked"), 400, "length"
    ),
    "both lengths, one for the connection": Refused(
        head(POST, HOST, b"Connection: content-length", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        400, "length",
    ),
    "two lengths": Refused(head(POST, HOST, b"Content-Length: 5", b"Content-Length: 6"), 400, "length"),
    "two equal lengths": Refused(head(POST, HOST, b"Content-Length: 5", b"content-length: 5"), 400, "length"),
    "a list of lengths": Refused(head(POST, HOST, b"Content-Length: 5,5"), 400, "length"),
    "a length with a sign": Refused(head(POST, HOST, b"Content-Length: +5"), 400, "length"),
    "a negative length": Refused(head(POST, HOST, b"Content-Length: -5"), 400, "length"),
    "a hexadecimal length": Refused(head(POST, HOST, b"Content-Length: 0x5"), 400, "length"),
    "a length with an underscore": Refused(head(POST, HOST, b"Content-Length: 1_0"), 400, "length"),
    "an empty length": Refused(head(POST, HOST, b"Content-Length:"), 400, "length"),
    "a huge length": Refused(head(POST, HOST, b"Content-Length: " + b"9" * 19), 400, "length"),
    "a length in other digits": Refused(head(POST, HOST, "Content-Length: \u0665".encode()), 400, "length"),
    "two codings": Refused(
        head(POST, HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400, "length"
    ),
    "another coding": Refused(head(POST, HOST, b"Transfer-Encoding: gzip"), 501, "coding"),
    "a coding before chunked": Refused(head(POST, HOST, b"Transfer-Encoding: gzip, chunked"), 501, "coding"),
    "identity": Refused(head(POST, HOST, b"Transfer-Encoding: identity"), 501, "coding"),
    "no coding": Refused(head(POST, HOST, b"Transfer-Encoding:"), 501, "coding"),
    "a coding with odd characters": Refused(head(POST, HOST, b"Transfer-Encoding: \xa0chunked"), 501, "coding"),
    "a name close to Content-Length": Refused(head(POST, HOST, b"Content_Length: 5"), 400, "header"),
    "a name close to Transfer-Encoding": Refused(head(POST, HOST, b"transfer.ENCODING: chunked"), 400, "header"),
    "a folded line": Refused(head(GET, HOST, b"A: b", b" Impersonate-User: bob"), 400, "folded"),
    "a line folded with a tab": Refused(head(GET, HOST, b"A: b", b"\tc"), 400, "folded"),
    "a folded request line": Refused(head(GET, b" b", HOST), 400, "folded"),
    "a bare LF": Refused(head(GET, HOST, b"A: b\nImpersonate-User: bob"), 400, "characters"),
    "a bare LF after the request line": Refused(head(GET + b"\n" + HOST), 400, "characters"),
    "a bare CR": Refused(head(GET, HOST, b"A: b\rc"), 400, "characters"),
    "a CR before CR LF": Refused(head(GET, HOST, b"A: b\r"), 400, "characters"),
    "a zero byte": Refused(head(GET, HOST, b"A: b\0"), 400, "characters"),
    "a control character": Refused(head(GET, HOST, b"A: b\x0b"), 400, "characters"),
    "a DEL": Refused(head(GET, HOST, b"A: b\x7f"), 400, "characters"),
    "a control character in a name": Refused(head(GET, HOST, b"A\x01: b"), 400, "characters"),
    "a control character in the target": Refused(head(b"GET /\x1f HTTP/1.1", HOST), 400, "characters"),
    "a space before the colon": Refused(head(GET, HOST, b"Transfer-Encoding : chunked"), 400, "header"),
    "a tab before the colon": Refused(head(GET, HOST, b"Impersonate-User\t: bob"), 400, "header"),
    "no name": Refused(head(GET, HOST, b": b"), 400, "header"),
    "no colon": Refused(head(GET, HOST, b"A"), 400, "header"),
    "a name that isn't ASCII": Refused(head(GET, HOST, b"Impersonate\xadUser: bob"), 400, "header"),
    "a name with a delimiter": Refused(head(GET, HOST, b"A(b): c"), 400, "header"),
    "an absolute target": Refused(head(b"GET https://a.example.org/ HTTP/1.1", HOST), 400, "target"),
    "the form of CONNECT": Refused(head(b"GET a.example.org:443 HTTP/1.1", HOST), 400, "target"),
    "an asterisk": Refused(head(b"OPTIONS * HTTP/1.1", HOST), 400, "target"),
    "CONNECT": Refused(head(b"CONNECT a.example.org:443 HTTP/1.1", HOST), 400, "target"),
    "CONNECT to a path": Refused(head(b"CONNECT / HTTP/1.1", HOST), 400, "target"),
    "a target that isn't ASCII": Refused(head(b"GET /\xe9 HTTP/1.1", HOST), 400, "target"),
    "HTTP/1.0": Refused(head(b"GET / HTTP/1.0", HOST), 505, "version"),
    "HTTP/2": Refused(head(b"PRI * HTTP/2.0"), 505, "version"),
    "HTTP in small letters": Refused(head(b"GET / http/1.1", HOST), 505, "version"),
    "no version": Refused(head(b"GET /", HOST), 400, "head"),
    "two spaces": Refused(head(b"GET  / HTTP/1.1", HOST), 400, "head"),
    "a space after the version": Refused(head(b"GET / HTTP/1.1 ", HOST), 400, "head"),
    "a space in the target": Refused(head(b"GET /a b HTTP/1.1", HOST), 400, "head"),
    "an odd method": Refused(head(b"G(T / HTTP/1.1", HOST), 400, "head"),
    "an empty line before the request": Refused(head(b"", GET, HOST), 400, "head"),
    "the beginning of TLS": Refused(b"\x16\x03\x01\x02\x00\x01\x00", 400, "head"),
    "an odd option": Refused(head(GET, HOST, b"Connection: close; Impersonate-User"), 400, "connection"),
    "an option that isn't ASCII": Refused(head(GET, HOST, b"Connection: \xe9"), 400, "connection"),
    "an upgrade to HTTP/2": Refused(head(GET, HOST, UPGRADE, b"Upgrade: h2c"), 400, "upgrade"),
    "an upgrade to TLS": Refused(head(GET, HOST, UPGRADE, b"Upgrade: TLS/1.2"), 400, "upgrade"),
    "an upgrade to another SPDY": Refused(head(GET, HOST, UPGRADE, b"Upgrade: SPDY/3"), 400, "upgrade"),
    "an upgrade to nothing": Refused(head(GET, HOST, UPGRADE, b"Upgrade:"), 400, "upgrade"),
    "a choice of upgrades": Refused(head(GET, HOST, UPGRADE, b"Upgrade: websocket, SPDY/3.1"), 400, "upgrade"),
    "two upgrades": Refused(
        head(GET, HOST, UPGRADE, b"Upgrade: websocket", b"Upgrade: websocket"), 400, "upgrade"
    ),
    "an upgrade with a body": Refused(
        head(POST, HOST, UPGRADE, b"Upgrade: SPDY/3.1", b"Content-Length: 5"), 400, "upgrade"
    ),
    "an upgrade with chunks": Refused(
        head(POST, HOST, UPGRADE, b"Upgrade: SPDY/3.1", b"Transfer-Encoding: chunked"), 400, "upgrade"
    ),
    "a long head": Refused(head(GET, HOST, b"A: " + b"b" * MOST_BYTES), 431, "long"),
    "a head that is long by a byte": Refused(head(GET, HOST, b"A: " + b"b" * (MOST_BYTES - 43)), 431, "long"),
    "many headers": Refused(head(GET, HOST, *[b"A:"] * MOST_HEADERS), 431, "long"),
    "a head without an end": Refused(b"A" * MOST_BYTES, 431, "long"),
}  # fmt: skip

TARGETS = {
    "/": "/",
    "//a.example.org/../%2e%2e/./%2F;x#y": "//a.example.org/../%2e%2e/./%2F;x#y",
    "/%zz": "/%zz",
    "/?": "/?",
    "/?a=b&&c=%41+d&=?/": "/?a=b&&c=%41+d&=?/",
    "/?a=b;c&d=e": "/?d=e",
    "/?a=%zz&b=%4&%=c&d=e&f=%": "/?d=e",
    "/?;": "/",
}
"""A map from the targets of requests to the targets that the API server gets."""


class Answer(NamedTuple):
    """The head of an answer to a request, the head that the client gets for it, and the body that follows."""

    raw: bytes
    wanted: bytes
    body: BodyKind
    method: str = "GET"
    upgrade: str = ""


OK = b"HTTP/1.1 200 OK"
CLOSE = b"Connection: close"
SWITCH = b"HTTP/1.1 101 Switching Protocols"
ANSWERS = {
    "a length": Answer(
        head(OK, b"content-length: 5", b"x-A: b"), head(OK, b"x-A: b", b"Content-Length: 5"), length(5)
    ),
    "chunks": Answer(
        head(OK, b"Transfer-Encoding: Chunked", b"Trailer: A"),
        head(OK, b"Trailer: A", b"Transfer-Encoding: chunked"),
        CHUNKED,
    ),
    "until the end of the connection": Answer(head(OK), head(OK, CLOSE), UNTIL_CLOSE),
    "the API server's last answer on its connection": Answer(
        head(OK, CLOSE, b"Content-Length: 5"), head(OK, b"Content-Length: 5"), length(5)
    ),
    "an odd reason": Answer(
        head(b"HTTP/1.1 404 \xe9 \t!", b"Content-Length: 0"),
        head(b"HTTP/1.1 404 \xe9 \t!", b"Content-Length: 0"),
        length(0),
    ),
    "no reason": Answer(
        head(b"HTTP/1.1 404", b"Content-Length: 0"), head(b"HTTP/1.1 404 ", b"Content-Length: 0"), length(0)
    ),
    "headers for one connection": Answer(
        head(OK, b"Connection: keep-alive, a, Content-Length", b"A: b", b"Keep-Alive: 5", b"Proxy-Authenticate: Basic",
             b"Upgrade: h2c", b"Content-Length: 5", b"WWW-Authenticate: Bearer", b"X-Forwarded-For: a"),
        head(OK, b"WWW-Authenticate: Bearer", b"X-Forwarded-For: a", b"Content-Length: 5"),
        length(5),
    ),
    "HEAD": Answer(head(OK, b"Content-Length: 5"), head(OK, b"Content-Length: 5"), NO_BODY, "HEAD"),
    "HEAD of chunks": Answer(head(OK, b"Transfer-Encoding: chunked"), head(OK), NO_BODY, "HEAD"),
    "HEAD without a length": Answer(head(OK), head(OK), NO_BODY, "HEAD"),
    "204": Answer(head(b"HTTP/1.1 204 No Content", b"A: b"), head(b"HTTP/1.1 204 No Content", b"A: b"), NO_BODY),
    "204 with a length": Answer(
        head(b"HTTP/1.1 204 No Content", b"Content-Length: 5"), head(b"HTTP/1.1 204 No Content"), NO_BODY
    ),
    "304": Answer(
        head(b"HTTP/1.1 304 Not Modified", b"Content-Length: 5"),
        head(b"HTTP/1.1 304 Not Modified", b"Content-Length: 5"),
        NO_BODY,
    ),
    "100": Answer(head(b"HTTP/1.1 100 Continue"), head(b"HTTP/1.1 100 Continue"), NO_BODY),
    "103": Answer(
        head(b"HTTP/1.1 103 Early Hints", b"Link: a", CLOSE, b"Content-Length: 5"),
        head(b"HTTP/1.1 103 Early Hints", b"Link: a"),
        NO_BODY,
    ),
    "101 to SPDY": Answer(
        head(SWITCH, b"Connection: upgrade", b"Upgrade: spdy/3.1", b"X-Stream-Protocol-Version: v4.channel.k8s.io"),
        head(SWITCH, b"X-Stream-Protocol-Version: v4.channel.k8s.io", UPGRADE, b"Upgrade: SPDY/3.1"),
        NO_BODY,
        "POST",
        "SPDY/3.1",
    ),
    "101 to WebSocket": Answer(
        head(SWITCH, UPGRADE, b"Upgrade: WebSocket", b"Sec-WebSocket-Accept: x"),
        head(SWITCH, b"Sec-WebSocket-Accept: x", UPGRADE, b"Upgrade: websocket"),
        NO_BODY,
        upgrade="websocket",
    ),
    "a refused upgrade": Answer(
        head(b"HTTP/1.1 403 Forbidden", b"Content-Length: 5"),
        head(b"HTTP/1.1 403 Forbidden", b"Content-Length: 5"),
        length(5),
        upgrade="websocket",
    ),
}  # fmt: skip

BAD_ANSWERS = {
    "both lengths": head(OK, b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "both lengths of no body": head(b"HTTP/1.1 304 OK", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "two lengths": head(OK, b"Content-Length: 5", b"Content-Length: 5"),
    "an odd length": head(OK, b"Content-Length: 5 5"),
    "another coding": head(OK, b"Transfer-Encoding: gzip, chunked"),
    "a folded line": head(OK, b"A: b", b" c"),
    "a bare LF": head(OK, b"A: b\nC: d"),
    "a zero byte": head(OK, b"A: \0"),
    "HTTP/1.0": head(b"HTTP/1.0 200 OK", b"Content-Length: 5"),
    "a request": head(GET, HOST),
    "a status of two digits": head(b"HTTP/1.1 20 OK"),
    "a status that doesn't exist": head(b"HTTP/1.1 600 OK"),
    "an odd option": head(OK, b"Connection: a b"),
    "a protocol that wasn't asked for": head(SWITCH, UPGRADE, b"Upgrade: SPDY/3.1"),
    "an unknown protocol": head(SWITCH, UPGRADE, b"Upgrade: h2c"),
    "no protocol": head(SWITCH, UPGRADE),
    "an upgrade without Connection": head(SWITCH, b"Upgrade: websocket"),
}
"""The heads of answers to a request for WebSocket that are refused."""


def request(raw: bytes) -> RequestHead | tuple[int, str]:
    """Return the parsed head of a request, or the status and the reason of its refusal."""
    try:
        size = head_length(raw)
        assert size == len(raw)
        return parse_request(raw)
    except BadHead as error:
        return error.status, error.reason


def accepted(raw: bytes) -> RequestHead:
    found = request(raw)
    assert isinstance(found, RequestHead)
    return found


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED)
def test_the_head_of_a_request_is_rewritten_for_the_api_server(case: Forwarded) -> None:
    assert forwarded(accepted(case.raw), ()) == case.wanted


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED)
def test_a_head_that_was_rewritten_once_stays_the_same_when_it_is_rewritten_again(case: Forwarded) -> None:
    assert forwarded(accepted(case.wanted), ()) == case.wanted


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_bad_head_of_a_request_is_refused_with_a_status_and_a_reason(case: Refused) -> None:
    assert request(case.raw) == (case.status, case.reason)


@pytest.mark.parametrize(("target", "wanted"), TARGETS.items())
def test_the_target_of_a_request_is_forwarded_without_unparsable_parameters(target: str, wanted: str) -> None:
    assert accepted(head(b"GET %b HTTP/1.1" % target.encode(), HOST)).target == wanted


def test_the_header_connection_of_a_request_cannot_remove_headers_that_the_proxy_adds() -> None:
    found = accepted(head(GET, HOST, b"Connection: A, B", b"a: 1", b"B: 2", b"C: 3", b"c: 4"))
    assert forwarded(found, [(b"A", b"5")], frozenset({b"c"})) == head(GET, HOST, b"A: 5")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [((), False), ((b"Connection: Keep-Alive, CLOSE",), True), ((b"Proxy-Connection: close",), False)],
)
def test_a_request_with_connection_close_is_the_last_one_on_its_connection(
    lines: tuple[bytes, ...], wanted: bool
) -> None:
    assert accepted(head(GET, HOST, *lines)).closes is wanted


def test_the_path_of_a_request_in_the_log_has_no_query() -> None:
    assert accepted(head(b"GET /a/b?token=c HTTP/1.1", HOST)).path == "/a/b"


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS)
def test_the_head_of_an_answer_is_rewritten_for_the_client(case: Answer) -> None:
    found = parse_answer(case.raw, case.method, case.upgrade)
    assert (answered(found), found.body) == (case.wanted, case.body)
    assert (found.is_upgrade, found.closes) == (bool(found.upgrade), CLOSE in case.raw or case.body is UNTIL_CLOSE)


@pytest.mark.parametrize("raw", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_the_error_for_a_malformed_head_of_an_answer_has_status_502(raw: bytes) -> None:
    with pytest.raises(BadHead) as refusal:
        parse_answer(raw, "GET", "websocket")
    assert refusal.value.status == 502


def test_an_answer_that_changes_the_protocol_is_refused_if_the_request_asked_for_no_upgrade() -> None:
    with pytest.raises(BadHead):
        parse_answer(head(SWITCH, UPGRADE, b"Upgrade: websocket"), "GET")


def test_the_last_answer_on_a_connection_says_that_the_connection_ends() -> None:
    last = answered(parse_answer(head(OK, b"Content-Length: 5"), "GET"), closes=True)
    interim = answered(parse_answer(head(b"HTTP/1.1 100 Continue"), "GET"), closes=True)
    assert (last, interim) == (head(OK, b"Content-Length: 5", CLOSE), head(b"HTTP/1.1 100 Continue"))


def test_a_long_head_of_an_answer_is_refused() -> None:
    longest = head(OK, b"A: " + b"b" * (MOST_ANSWER_BYTES - 24))
    assert answer_length(longest) == MOST_ANSWER_BYTES
    with pytest.raises(BadHead) as refusal:
        answer_length(b"b" + longest)
    assert refusal.value.status == 502


cuts = st.lists(st.integers(0, 400), max_size=6)


def answer_status(raw: bytes) -> int:
    """Return the status of an answer to GET; if it is refused, the negative status of the refusal."""
    try:
        return parse_answer(raw, "GET").status
    except BadHead as error:
        return -error.status


def read(raw: bytes, cuts: list[int]) -> tuple[int, str] | int:
    """Return the length of the first head in *raw*, 0 if it is incomplete, or the status and reason of its refusal.

    The proxy gets *raw* in pieces that end at *cuts*.
    """
    seen = 0
    for end in [*sorted(min(cut, len(raw)) for cut in cuts), len(raw)]:
        try:
            size = head_length(bytearray(raw[:end]), seen)
        except BadHead as error:
            return error.status, error.reason
        if size:
            return size
        seen = end
    return 0


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED)
@given(cuts)
def test_the_end_of_a_head_is_found_however_the_head_is_cut(case: Forwarded, cuts: list[int]) -> None:
    assert read(case.raw + b"\n\0\r\n\r\n", cuts) == len(case.raw)


@pytest.mark.parametrize(
    "raw",
    [
        head(b"GET / HTTP/1.1\n", HOST),
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET /\0",
        b"GET /\x7f",
        b"GET /\r ",
        b"\r\n",
        b"\x16",
    ],
)
@given(st.integers(0, 20))
def test_a_bad_head_is_refused_even_before_it_is_complete(raw: bytes, cut: int) -> None:
    assert read(raw.removesuffix(b"\r\n\r\n"), [cut]) in {(400, "characters"), (400, "head")}


def test_a_head_whose_bytes_so_far_end_in_a_carriage_return_is_incomplete_and_not_refused() -> None:
    assert [
        read(raw, [len(raw) - 1]) for raw in (b"GET / HTTP/1.1\r", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r")
    ] == [0, 0, 0]


lines = st.lists(
    st.sampled_from(
        [
            HOST, b"Content-Length: 5", b"content-length:5", b"Transfer-Encoding: chunked", b"Connection: close, a-b",
            b"Connection: transfer-encoding", b"A-B: c", b"TE: trailers", b"Upgrade: websocket", UPGRADE, b" folded",
            b"A: \xff", b"A : b", b"", b"A: b\n", b"A: \0", b"Expect: 100-continue", b"Transfer-Encoding: x",
        ]
    ),
    max_size=6,
)  # fmt: skip


@given(st.sampled_from([GET, POST, b"GET / HTTP/1.0", b"GET * HTTP/1.1", b"HEAD /?a;b HTTP/1.1"]), lines)
def test_h11_reads_a_forwarded_head_as_the_proxy_meant_it(first: bytes, lines: list[bytes]) -> None:
    found = request(head(first, HOST, *lines).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    if not isinstance(found, RequestHead):
        return
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(forwarded(found, ()))
    event = reader.next_event()
    assert isinstance(event, h11.Request)
    names = [name for name, _ in event.headers]
    assert names.count(b"host") == 1
    assert (b"transfer-encoding" in names, b"content-length" in names) == (
        found.body.framing is Framing.CHUNKED,
        found.body.framing is Framing.LENGTH,
    )


@given(st.binary(max_size=200), st.sampled_from([b"", GET + b"\r\n", b"GET "]), st.sampled_from([b"", b"\r\n\r\n"]))
def test_random_bytes_of_a_client_are_read_as_a_head_or_as_an_incomplete_head_or_are_refused(
    random: bytes, start: bytes, end: bytes
) -> None:
    size = read(start + random + end, [5, 50])
    if isinstance(size, int) and size:
        found = request((start + random + end)[:size])
        assert isinstance(found, RequestHead | tuple)


@given(st.binary(max_size=200), st.sampled_from([b"", OK + b"\r\n", b"HTTP/1.1 "]))
def test_random_bytes_of_an_api_server_are_read_as_the_head_of_an_answer_or_are_refused(
    random: bytes, start: bytes
) -> None:
    status = answer_status(start + random + b"\r\n\r\n")
    assert status == -502 or 100 <= status < 600
