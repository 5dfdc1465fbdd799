"""The heads of requests and answers: which ones we refuse, and what the other side gets (RFC 9110 and 9112).

h11 accepts more than we do, such as lines that end with a bare LF, folded lines, and HTTP/1.0. Two programs that read
such a head differently can be played off against each other. So we check the bytes first, and h11 reads the rest.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import h11

from tsoperator.apiproxy.errors import BadHead
from tsoperator.apiproxy.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyKind, Framing

Header = tuple[bytes, bytes]
"""A name in the spelling of its sender, and a value."""

MOST_BYTES: Final = 16 * 1024
"""The longest head of a request."""
MOST_ANSWER_BYTES: Final = 64 * 1024
"""The longest head of an answer."""

WEBSOCKET: Final = "websocket"
SPDY: Final = "SPDY/3.1"

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_LINES: Final = rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
_REQUEST: Final = re.compile(_TOKEN + rb" /[\x21-\x7e]* HTTP/1\.1\r\n" + _LINES)
_ANSWER: Final = re.compile(rb"HTTP/1\.1 [1-5][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?\r\n" + _LINES)
_ODD: Final = re.compile(rb"[^\t\r\n\x20-\x7e\x80-\xff]|(?<!\r)\n|\r(?!\n|\Z)")
"""A control character, or a CR or LF alone. A CR at the end may be the first half of a CRLF."""
_IS_TOKEN: Final = re.compile(_TOKEN)
_HOST: Final = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]%]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_UNPARSABLE: Final = re.compile(r";|%(?![0-9A-Fa-f]{2})")
"""What makes Go drop a parameter of a query."""

_UPGRADES: Final = {b"websocket": WEBSOCKET, b"spdy/3.1": SPDY}
_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
_REWRITTEN: Final = frozenset({b"host", b"content-length"})
"""Headers that we write ourselves. So a client can't remove them by naming them in Connection."""
_FORWARDING: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"})


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request that we accept.

    *upgrade* is `WEBSOCKET`, `SPDY` or empty. *closes* says that the client wants no further request on its connection.
    """

    method: str
    target: str
    headers: Sequence[Header]
    host: bytes
    body: BodyKind
    upgrade: str
    closes: bool
    expects_continue: bool

    @property
    def path(self) -> str:
        """Return the target without its query. It may stand in a log: tokens are in queries only."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The head of an answer of the API server.

    *closes* says that the connection to the API server ends with this answer. *upgrade* is the protocol of a 101.
    """

    status: int
    reason: bytes
    headers: Sequence[Header]
    body: BodyKind
    upgrade: str
    closes: bool

    @property
    def is_interim(self) -> bool:
        """Whether another answer to the same request follows."""
        return self.status < 200 and not self.is_upgrade

    @property
    def is_upgrade(self) -> bool:
        """Whether all bytes after the head are of another protocol."""
        return self.status == 101


def head_length(buffer: bytes | bytearray, seen: int = 0, most: int = MOST_BYTES) -> int:
    """Return the number of bytes of the head at the beginning of *buffer*; 0 if it is incomplete.

    An earlier call has got the first *seen* bytes. Raises BadHead for a head of more than *most* bytes, and at once for
    control characters and for a CR or LF alone.
    """
    end = buffer.find(b"\r\n\r\n", max(0, seen - 3), most)
    length = end + 4 if end >= 0 else 0
    odd = _ODD.search(buffer, max(0, seen - 1), length or min(len(buffer), most))
    if odd:
        raise BadHead(400, "characters", "the head has a control character, or a line that doesn't end with CR LF")
    if buffer[:1] and not _IS_TOKEN.match(buffer[:1]):
        raise BadHead(400, "head", "the head doesn't begin with a method")
    if not length and len(buffer) >= most:
        raise BadHead(431, "long", f"the head has more than {most} bytes")
    return length


def parse_request(raw: bytes | bytearray) -> RequestHead:
    """Return what a whole head of a request says. Raises BadHead."""
    if not _REQUEST.fullmatch(raw):
        raise _refused_request(bytes(raw))
    request = _read(h11.Connection(h11.SERVER), raw, 400)
    if not isinstance(request, h11.Request):
        raise BadHead(400, "head", "the head isn't that of a request")
    headers = request.headers.raw_items()
    found = _Found(headers, 400)
    options = found.connection
    expected = found.values(b"expect")
    method = request.method.decode("ascii")
    if method == "CONNECT":
        raise BadHead(400, "target", "this proxy doesn't open tunnels")
    upgrade = _upgrade(found) if b"upgrade" in options else ""
    body = found.body() or NO_BODY
    if upgrade and (body.framing is Framing.CHUNKED or body.length):
        raise BadHead(400, "upgrade", "a request for an upgrade can't have a body")
    return RequestHead(
        method=method,
        target=_without_unparsable(request.target.decode("ascii")),
        headers=headers,
        host=found.host(),
        body=body,
        upgrade=upgrade,
        closes=b"close" in options,
        expects_continue=any(value.lower() == b"100-continue" for value in expected),
    )


def parse_answer(raw: bytes | bytearray, method: str, upgrade: str = "") -> AnswerHead:
    """Return what a whole head of an answer says. The request had *method*, and asked for *upgrade*. Raises BadHead."""
    if not _ANSWER.fullmatch(raw):
        raise BadHead(502, "answer", "the head of an answer is malformed")
    connection = h11.Connection(h11.CLIENT)
    asked = [("Host", ""), ("Upgrade", upgrade)] if upgrade else [("Host", "")]
    connection.send(h11.Request(method=method, target="/", headers=asked))
    answer = _read(connection, raw, 502)
    if not isinstance(answer, h11.Response | h11.InformationalResponse):
        raise BadHead(502, "answer", "the head isn't that of an answer")
    headers = answer.headers.raw_items()
    found = _Found(headers, 502)
    status = answer.status_code
    if status == 101 and (not upgrade or _upgrade(found) != upgrade):
        raise BadHead(502, "answer", "the answer changes to a protocol that wasn't asked for")
    kind = found.body() or UNTIL_CLOSE
    if status < 200 or status in {204, 304} or method == "HEAD":
        kind = NO_BODY
    return AnswerHead(
        status=status,
        reason=bytes(answer.reason),
        headers=headers,
        body=kind,
        upgrade=upgrade if status == 101 else "",
        closes=kind is UNTIL_CLOSE or b"close" in found.connection,
    )


def forwarded(head: RequestHead, added: Iterable[Header], dropped: Collection[bytes] = ()) -> bytes:
    """Return the head for the API server: *head* with the headers *added*, and without those *dropped* (in lower case).

    The headers are added last, so nothing that the client says about its connection can remove them.
    """
    found = _Found(head.headers, 400)
    skipped = _HOP_BY_HOP | _FORWARDING | _REWRITTEN | found.connection | frozenset(dropped)
    lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (head.method.encode(), head.target.encode(), head.host)]
    lines += _lines((name, value) for name, value in head.headers if name.lower() not in skipped)
    if any(value.lower() == b"trailers" for value in found.values(b"te")):
        lines.append(b"TE: trailers\r\n")
    lines += _framing(head.body)
    if head.upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.upgrade.encode())
    lines += _lines(added)
    lines.append(b"\r\n")
    return b"".join(lines)


def answered(head: AnswerHead, closes: bool) -> bytes:
    """Return the head for the client; *closes* says that its connection ends with this answer."""
    found = _Found(head.headers, 502)
    skipped = (_HOP_BY_HOP | found.connection) - {b"trailer", b"content-length"}
    if head.body.framing is not Framing.NONE or head.status < 200 or head.status == 204:
        skipped |= {b"content-length"}
    lines = [b"HTTP/1.1 %d %b\r\n" % (head.status, head.reason)]
    lines += _lines((name, value) for name, value in head.headers if name.lower() not in skipped)
    lines += _framing(head.body)
    if head.is_upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.upgrade.encode())
    elif closes and not head.is_interim:
        lines.append(b"Connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


class _Found:
    """The headers of a head that we read ourselves. *status* is that of an error."""

    def __init__(self, headers: Sequence[Header], status: int) -> None:
        self._headers = [(name.lower(), value) for name, value in headers]
        self._status = status
        self.connection = frozenset(value.lower() for value in self.values(b"connection"))
        """The options of all Connection headers, in lower case."""
        if not all(_IS_TOKEN.fullmatch(option) for option in self.connection):
            raise BadHead(status, "connection", "the header Connection is malformed")

    def values(self, name: bytes) -> list[bytes]:
        """Return the elements of the lists in all headers called *name*."""
        lists = (value.split(b",") for found, value in self._headers if found == name)
        return [element.strip(b" \t") for elements in lists for element in elements if element.strip(b" \t")]

    def host(self) -> bytes:
        """Return the one host. Raises BadHead."""
        hosts = self._all(b"host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            raise BadHead(self._status, "host", "the head needs one header Host with the name of a host")
        return hosts[0]

    def body(self) -> BodyKind | None:
        """Return the framing of the body; None if no header says it. Raises BadHead."""
        lengths, codings = self._all(b"content-length"), self._all(b"transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise BadHead(self._status, "length", "the head says in more than one way how long the body is")
        if codings:
            if codings[0].lower() != b"chunked":
                status = 501 if self._status == 400 else self._status
                raise BadHead(status, "coding", "the head has a transfer coding other than chunked")
            return CHUNKED
        if lengths:
            if not _LENGTH.fullmatch(lengths[0]):
                raise BadHead(self._status, "length", "the header Content-Length is malformed")
            return BodyKind(Framing.LENGTH, int(lengths[0]))
        return None

    def upgrades(self) -> list[bytes]:
        """Return the values of all headers Upgrade, in lower case."""
        return [value.lower() for value in self._all(b"upgrade")]

    def _all(self, name: bytes) -> list[bytes]:
        return [value for found, value in self._headers if found == name]


def _read(connection: h11.Connection, raw: bytes | bytearray, status: int) -> object:
    connection.receive_data(bytes(raw))
    try:
        return connection.next_event()
    except h11.RemoteProtocolError as error:
        raise BadHead(status, "head", f"the head is malformed: {error}") from error


def _upgrade(found: _Found) -> str:
    """Return the protocol that a head upgrades to; empty if it has no header Upgrade. Raises BadHead."""
    wanted = found.upgrades()
    if not wanted:
        return ""
    if len(wanted) > 1 or wanted[0] not in _UPGRADES:
        raise BadHead(400, "upgrade", f"this proxy upgrades connections to {SPDY} and {WEBSOCKET} only")
    return _UPGRADES[wanted[0]]


def _without_unparsable(target: str) -> str:
    """Return *target* without the parameters of its query that Go can't parse, which the API server would ignore."""
    path, mark, query = target.partition("?")
    if not mark or not _UNPARSABLE.search(query):
        return target
    kept = [each for each in query.split("&") if not _UNPARSABLE.search(each)]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _framing(body: BodyKind) -> Iterator[bytes]:
    if body.framing is Framing.LENGTH:
        yield b"Content-Length: %d\r\n" % body.length
    elif body.framing is Framing.CHUNKED:
        yield b"Transfer-Encoding: chunked\r\n"


def _lines(headers: Iterable[Header]) -> Iterator[bytes]:
    return (b"%b: %b\r\n" % header for header in headers)


def _refused_request(raw: bytes) -> BadHead:
    """Return the error for a head that isn't as we want it."""
    first, _, rest = raw.partition(b"\r\n")
    words = first.split(b" ")
    if _ODD.search(raw):
        return BadHead(400, "characters", "the head has a control character, or a line that doesn't end with CR LF")
    if len(words) != 3 or not _IS_TOKEN.fullmatch(words[0]):
        return BadHead(400, "head", "the request line is malformed")
    if words[2] != b"HTTP/1.1":
        return BadHead(505, "version", "this proxy speaks HTTP/1.1 only")
    if not re.fullmatch(rb"/[\x21-\x7e]*", words[1]):
        return BadHead(400, "target", "the target of a request has to begin with a slash")
    if re.search(rb"(?:^|\r\n)[\t ]", rest):
        return BadHead(400, "folded", "the head has a folded line")
    return BadHead(400, "header", "a header is malformed")
