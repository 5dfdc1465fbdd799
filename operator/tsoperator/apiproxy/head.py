"""Reads the heads of requests and answers, refuses bad ones, and writes them anew for the other side (RFC 9110, 9112).

h11 accepts more than we do, such as lines that end with a bare LF, folded lines, and HTTP/1.0. If we and the API server
read such a head differently, an attacker can hide a request from us. So we check the bytes before h11 parses them.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import h11

from tsoperator.apiproxy.errors import BadHead
from tsoperator.apiproxy.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyKind, Framing

Header = tuple[bytes, bytes]
"""The name of a header, in the spelling of its sender, and its value."""

MOST_BYTES: Final = 16 * 1024
"""The most bytes of the head of a request."""
MOST_HEADERS: Final = 200
"""The most headers of a request. Thousands fit in a head, and reading them would keep other requests waiting."""
MOST_ANSWER_BYTES: Final = 64 * 1024
"""The most bytes of the head of an answer."""

WEBSOCKET: Final = "websocket"
SPDY: Final = "SPDY/3.1"

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]*"
_TARGET: Final = rb"/[\x21-\x7e]*"
_LINES: Final = rb"(?:" + _TOKEN + rb":" + _TEXT + rb"\r\n)*\r\n"
_REQUEST: Final = re.compile(_TOKEN + rb" " + _TARGET + rb" HTTP/1\.1\r\n" + _LINES)
_ANSWER: Final = re.compile(rb"HTTP/1\.1 [1-5][0-9]{2}(?: " + _TEXT + rb")?\r\n" + _LINES)
_HEADER: Final = re.compile(rb"\n(" + _TOKEN + rb"):(" + _TEXT + rb")")
"""The pattern of a header. In a head that has been checked, each line but the first one follows an LF."""
_ODD: Final = re.compile(rb"[^\t\r\n\x20-\x7e\x80-\xff]|(?<!\r)\n|\r(?!\n|\Z)")
"""The pattern of a control character, or of a CR or LF outside of a CRLF. It doesn't match a CR at the end, because
such a CR can begin a CRLF."""
_LOOKALIKE: Final = re.compile(rb"\n(?:content[^0-9a-z\-:]length|transfer[^0-9a-z\-:]encoding):", re.IGNORECASE)
"""The pattern of a header's name that some programs take for Content-Length or Transfer-Encoding."""
_IS_TOKEN: Final = re.compile(_TOKEN)
_HOST: Final = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]%]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_UNPARSABLE: Final = re.compile(r";|%(?![0-9A-Fa-f]{2})")
"""The pattern of a text that makes a server in Go ignore a parameter of a query."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_UPGRADES: Final = {b"websocket": WEBSOCKET, b"spdy/3.1": SPDY}
_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
_FORWARDING: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"})
_LEFT_OUT: Final = _HOP_BY_HOP | _FORWARDING | {b"host", b"content-length"}
"""Headers of a request that we don't copy. We write Host and Content-Length anew, even if Connection names them."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request that we accept.

    *options* are those of the header Connection, in lower case. *upgrade* is `WEBSOCKET`, `SPDY` or empty.
    """

    method: str
    target: str
    headers: Sequence[Header]
    host: bytes
    body: BodyKind
    options: Set[bytes]
    upgrade: str
    accepts_trailers: bool

    @property
    def closes(self) -> bool:
        """Whether the client wants no further request on its connection."""
        return b"close" in self.options

    @property
    def is_safe(self) -> bool:
        """Whether the request changes nothing. A request for an upgrade isn't safe: even a GET can run a command."""
        return self.method in _SAFE and not self.upgrade

    @property
    def path(self) -> str:
        """Return the target without its query, for the log. The query can contain a token."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The head of an answer of the API server.

    *options* are those of the header Connection, in lower case. *upgrade* is the protocol to which an answer with
    status 101 switches.
    """

    status: int
    reason: bytes
    headers: Sequence[Header]
    body: BodyKind
    options: Set[bytes]
    upgrade: str

    @property
    def closes(self) -> bool:
        """Whether the connection to the API server ends with this answer."""
        return self.body.framing is Framing.UNTIL_CLOSE or b"close" in self.options

    @property
    def is_interim(self) -> bool:
        """Whether another answer to the same request follows."""
        return self.status < 200 and not self.is_upgrade

    @property
    def is_upgrade(self) -> bool:
        """Whether all bytes after the head are of another protocol."""
        return self.status == 101


def head_length(buffer: bytes | bytearray, seen: int = 0) -> int:
    """Return the number of bytes of a request's head at the beginning of *buffer*; 0 if it is incomplete.

    An earlier call has looked at the first *seen* bytes already. Raises BadHead if the head is too long. Raises BadHead
    for an incomplete head that doesn't begin with a method, or that has a control character, or a CR or LF outside of a
    CRLF.
    """
    end = buffer.find(b"\r\n\r\n", max(0, seen - 3), MOST_BYTES)
    if end >= 0:
        return end + 4
    if len(buffer) >= MOST_BYTES:
        raise BadHead(431, "long", f"the head has more than {MOST_BYTES} bytes")
    if buffer[:1] and not _IS_TOKEN.match(buffer[:1]):
        raise BadHead(400, "head", "the request line is malformed")
    if _ODD.search(buffer, max(0, seen - 1)):
        raise _odd_characters()
    return 0


def answer_length(buffer: bytes | bytearray, seen: int = 0) -> int:
    """Return the number of bytes of an answer's head at the beginning of *buffer*; 0 if it is incomplete.

    An earlier call has looked at the first *seen* bytes already. Raises BadHead if the head is too long.
    """
    end = buffer.find(b"\r\n\r\n", max(0, seen - 3), MOST_ANSWER_BYTES)
    if end < 0 and len(buffer) >= MOST_ANSWER_BYTES:
        raise BadHead(502, "answer", f"the head of an answer has more than {MOST_ANSWER_BYTES} bytes")
    return end + 4 if end >= 0 else 0


def parse_request(raw: bytes | bytearray) -> RequestHead:
    """Return the head of a request, parsed from *raw*, the whole head. Raises BadHead."""
    if raw.count(b"\n") - 2 > MOST_HEADERS:
        raise BadHead(431, "long", f"the head has more than {MOST_HEADERS} headers")
    if not _REQUEST.fullmatch(raw):
        raise _refused_request(bytes(raw))
    if _LOOKALIKE.search(raw):
        raise BadHead(400, "header", "the name of a header is close to Content-Length or Transfer-Encoding")
    found = _Found(raw, 400)
    host, body, options = found.host(), found.body() or NO_BODY, found.options()
    request = _read(h11.Connection(h11.SERVER), raw, 400)
    if not isinstance(request, h11.Request) or request.method == b"CONNECT":
        raise BadHead(400, "target", "this proxy doesn't open tunnels")
    upgrade = found.upgrade() if b"upgrade" in options else ""
    if upgrade and (body.framing is Framing.CHUNKED or body.length):
        raise BadHead(400, "upgrade", "a request for an upgrade can't have a body")
    return RequestHead(
        method=request.method.decode("ascii"),
        target=_without_unparsable(request.target.decode("ascii")),
        headers=found.headers,
        host=host,
        body=body,
        options=options,
        upgrade=upgrade,
        accepts_trailers=b"trailers" in found.elements(b"te"),
    )


def parse_answer(raw: bytes | bytearray, method: str, upgrade: str = "") -> AnswerHead:
    """Return the head of an answer, parsed from *raw*, the whole head. Raises BadHead.

    *method* is that of the request, and *upgrade* the protocol to which the request asked to switch; empty if none.
    """
    if not _ANSWER.fullmatch(raw):
        raise BadHead(502, "answer", "the head of an answer is malformed")
    connection = h11.Connection(h11.CLIENT)
    connection.send(_asked(method, upgrade))
    answer = _read(connection, raw, 502)
    if not isinstance(answer, h11.Response | h11.InformationalResponse):
        raise BadHead(502, "answer", "the head of an answer is malformed")
    found, status = _Found(raw, 502), answer.status_code
    options, body = found.options(), found.body() or UNTIL_CLOSE
    if status == 101 and (b"upgrade" not in options or found.upgrade() != upgrade):
        raise BadHead(502, "answer", "the answer changes to a protocol that wasn't asked for")
    if status < 200 or status in {204, 304} or method == "HEAD":
        body = NO_BODY
    return AnswerHead(
        status=status,
        reason=bytes(answer.reason),
        headers=found.headers,
        body=body,
        options=options,
        upgrade=upgrade if status == 101 else "",
    )


def forwarded(head: RequestHead, added: Iterable[Header], dropped: Set[bytes] = frozenset()) -> bytes:
    """Return the bytes of *head* for the API server, with the *added* headers and without the *dropped* ones.

    *dropped* has names in lower case. We add the *added* headers last, so that the client's header Connection, which
    names headers to remove, can't remove them.
    """
    skipped = _LEFT_OUT | head.options | dropped
    lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (head.method.encode(), head.target.encode(), head.host)]
    lines += [b"%b: %b\r\n" % (name, value) for name, value in head.headers if name.lower() not in skipped]
    if head.accepts_trailers:
        lines.append(b"TE: trailers\r\n")
    lines.append(_framing(head.body))
    if head.upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.upgrade.encode())
    lines += [b"%b: %b\r\n" % header for header in added]
    lines.append(b"\r\n")
    return b"".join(lines)


def answered(head: AnswerHead, closes: bool = False) -> bytes:
    """Return the bytes of *head* for the client. With *closes*, they say that the connection ends with this answer.

    They also say so if the body lasts until the end of the connection, because nothing else shows the body's length.
    """
    skipped = (_HOP_BY_HOP | head.options) - {b"trailer"} | {b"content-length"}
    if head.body.framing is Framing.NONE and head.status >= 200 and head.status != 204:
        skipped -= {b"content-length"}  # in an answer to HEAD or with status 304, it tells what a GET would return
    lines = [b"HTTP/1.1 %d %b\r\n" % (head.status, head.reason)]
    lines += [b"%b: %b\r\n" % (name, value) for name, value in head.headers if name.lower() not in skipped]
    lines.append(_framing(head.body))
    if head.is_upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.upgrade.encode())
    elif (closes or head.body.framing is Framing.UNTIL_CLOSE) and not head.is_interim:
        lines.append(b"Connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


class _Found:
    """The headers of a *raw* head, which we parse without h11. We refuse a bad head with *status*.

    We don't leave the headers to h11, because h11 accepts two headers Content-Length if they are equal.
    """

    def __init__(self, raw: bytes | bytearray, status: int) -> None:
        self.headers = [(name, value.strip(b" \t")) for name, value in _HEADER.findall(raw)]
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            self._values.setdefault(name.lower(), []).append(value)
        self._status = status

    def elements(self, name: bytes) -> Set[bytes]:
        """Return the elements, in lower case, of the lists in all headers called *name*. *name* is in lower case."""
        elements = b",".join(self._values.get(name, ())).lower().split(b",")
        return {element.strip(b" \t") for element in elements} - {b""}

    def options(self) -> Set[bytes]:
        """Return the options of all headers Connection, in lower case. Raises BadHead."""
        options = self.elements(b"connection")
        if not all(_IS_TOKEN.fullmatch(option) for option in options):
            raise BadHead(self._status, "connection", "the header Connection is malformed")
        return options

    def host(self) -> bytes:
        """Return the value of the header Host. Raises BadHead unless there is exactly one such header."""
        hosts = self._values.get(b"host", ())
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            raise BadHead(self._status, "host", "the head needs one header Host with the name of a host")
        return hosts[0]

    def body(self) -> BodyKind | None:
        """Return the framing of the body; None if no header tells it. Raises BadHead."""
        lengths, codings = self._values.get(b"content-length", ()), self._values.get(b"transfer-encoding", ())
        if len(lengths) + len(codings) > 1:
            raise BadHead(self._status, "length", "more than one header says how long the body is")
        if codings:
            if codings[0].lower() != b"chunked":
                status = 501 if self._status == 400 else self._status
                raise BadHead(status, "coding", "the body has a transfer coding other than chunked")
            return CHUNKED
        if lengths:
            if not _LENGTH.fullmatch(lengths[0]):
                raise BadHead(self._status, "length", "the header Content-Length is malformed")
            return BodyKind(Framing.LENGTH, int(lengths[0]))
        return None

    def upgrade(self) -> str:
        """Return the protocol in the header Upgrade; empty if there is none. Raises BadHead."""
        wanted = [value.lower() for value in self._values.get(b"upgrade", ())]
        if not wanted:
            return ""
        if len(wanted) > 1 or wanted[0] not in _UPGRADES:
            raise BadHead(self._status, "upgrade", f"this proxy upgrades connections to {SPDY} and {WEBSOCKET} only")
        return _UPGRADES[wanted[0]]


@lru_cache(maxsize=64)
def _asked(method: str, upgrade: str) -> h11.Request:
    """Return h11's object for a request with *method*, and with *upgrade* unless that is empty.

    h11 must know a request before it can read the answer to it.
    """
    headers = [("Host", ""), ("Upgrade", upgrade)] if upgrade else [("Host", "")]
    return h11.Request(method=method, target="/", headers=headers)


def _read(connection: h11.Connection, raw: bytes | bytearray, status: int) -> object:
    connection.receive_data(bytes(raw))
    try:
        return connection.next_event()
    except h11.RemoteProtocolError as error:
        raise BadHead(status, "head", f"the head is malformed: {error}") from error


def _without_unparsable(target: str) -> str:
    """Return *target* without the parameters of its query that Go can't parse. The API server would ignore them."""
    path, _, query = target.partition("?")
    if not _UNPARSABLE.search(query):
        return target
    kept = [each for each in query.split("&") if not _UNPARSABLE.search(each)]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _framing(body: BodyKind) -> bytes:
    """Return the header that says how long the *body* is; empty if there is none."""
    if body.framing is Framing.LENGTH:
        return b"Content-Length: %d\r\n" % body.length
    return b"Transfer-Encoding: chunked\r\n" if body.framing is Framing.CHUNKED else b""


def _odd_characters() -> BadHead:
    return BadHead(400, "characters", "the head has a control character, or a line that doesn't end with CR LF")


def _refused_request(raw: bytes) -> BadHead:
    """Return the error that says why we refuse *raw*, the head of a request."""
    first, _, rest = raw.partition(b"\r\n")
    words = first.split(b" ")
    if _ODD.search(raw):
        return _odd_characters()
    if len(words) != 3 or not _IS_TOKEN.fullmatch(words[0]):
        return BadHead(400, "head", "the request line is malformed")
    if words[2] != b"HTTP/1.1":
        return BadHead(505, "version", "this proxy speaks HTTP/1.1 only")
    if not re.fullmatch(_TARGET, words[1]):
        return BadHead(400, "target", "the target of a request has to begin with a slash, and to be ASCII")
    if re.match(rb"[\t ]", rest) or b"\n " in rest or b"\n\t" in rest:
        return BadHead(400, "folded", "the head has a folded line")
    return BadHead(400, "header", "a header is malformed")
