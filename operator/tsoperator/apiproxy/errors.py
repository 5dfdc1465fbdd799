"""Errors of the API server proxy, in a tree. Each line says how the proxy reacts, a number being an HTTP status.

ApiProxyError
├── MalformedProxyHeader  the connection begins with no PROXY header that we accept: close it without an answer
├── CallerUnknown         tailscaled doesn't know the caller, answers with an error, or doesn't answer: 500
├── ApiServerUnreachable  no connection to the API server, or no answer of it: 502
├── ClientGone            the client has broken off the connection, or is silent for too long: close it
├── BadWhoIs              tailscaled's description of the caller can't be read: 500
├── BadFrames             the frames of a recorded session are malformed: end the session
├── RecordingFailed       a recorder can't be reached, or refuses or loses a recording: end what must be recorded
└── BadMessage            HTTP that we refuse: its status goes to the client, and the connection is closed
    ├── BadHead           the head of a request or of an answer
    └── BadBody           the framing of a body
"""


class ApiProxyError(Exception):
    """An error: the proxy can't go on with a connection or a request."""


class MalformedProxyHeader(ApiProxyError):
    """An error: the bytes are no PROXY header that we accept. *reason* is a short word for the metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CallerUnknown(ApiProxyError):
    """An error: tailscaled doesn't know the caller, answers with an error, or doesn't answer.

    *reason* is a short word for the metrics.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ApiServerUnreachable(ApiProxyError):
    """An error: the API server can't be reached, or it closed the connection without an answer."""


class ClientGone(ApiProxyError):
    """An error: the client has broken off the connection, or it has sent nothing for too long."""


class BadWhoIs(ApiProxyError):
    """An error: we can't read tailscaled's description of the caller. The message names the fault."""


class BadFrames(ApiProxyError):
    """An error: bytes of a recorded session aren't frames of its protocol. *reason* is a short word for the metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RecordingFailed(ApiProxyError):
    """An error: no recorder accepts a recording or an event, or a recorder has lost it. The message says why."""


class BadMessage(ApiProxyError):
    """An error: we refuse an HTTP message. No byte after it on its connection can be trusted.

    *status* is the HTTP status for the client, *reason* a short word for the metrics.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class BadHead(BadMessage):
    """An error: we refuse the head of a request (400, 431, 501 or 505) or of an answer (502)."""


class BadBody(BadMessage):
    """An error: we refuse the framing of the body of a request (400) or of an answer (502)."""
