"""Errors of the control server, in a tree by the way in which callers react to them.

ControlError
├── Unavailable            no answer in time, or 5xx, in every try: try again later
├── RateLimited            429 in every try: try again later
├── UnexpectedAnswer       a redirect, a web page, JSON of another shape: that is not the API
├── CredentialsUnreadable  the files of the OAuth client are missing or empty
│   ├── IdentityUnreadable the ServiceAccount token of workload identity is missing or empty
│   └── NoToken            the API server gave no token for workload identity
└── Refused                a refusal; *status* and *detail* as the server gave them
    ├── BadRequest         400, 409, 422: a request that is not acceptable, such as one for a tag that is not permitted
    │   └── NameInUse      400: a device has the name of a Tailscale Service that is to be made
    ├── Unauthorized       401: the OAuth client is not, or no longer, accepted
    ├── Forbidden          403: the OAuth client lacks a scope or a tag
    ├── Missing            404 of the API: no such device or Tailscale Service
    └── NotSupported       404 in plain text: this control server has no such call
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Granted:
    """The rights of an access token, as the server said when it issued the token; None where it said nothing."""

    scopes: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None


UNTOLD = Granted()


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the control server at the URL *server*.

    *tags* are the tags that the request asked for, and *granted* are the rights of its access token. *secret* names the
    Secret with the credentials; it is empty for the operator's own credentials.
    """

    server: str = ""
    path: str = ""
    tags: tuple[str, ...] = ()
    granted: Granted = UNTOLD
    secret: str = ""


UNKNOWN_CALL = Call()


class ControlError(Exception):
    """A call to the control server failed. The text says what to do, and contains no secret."""


class Unavailable(ControlError):
    """The control server gave no usable answer in time."""


class RateLimited(ControlError):
    """The control server wants fewer requests."""


class UnexpectedAnswer(ControlError):
    """Something answered that does not speak the control server's API."""


class CredentialsUnreadable(ControlError):
    """The OAuth client's ID or secret cannot be read."""


class IdentityUnreadable(CredentialsUnreadable):
    """The ServiceAccount token that workload identity offers cannot be read."""


class NoToken(CredentialsUnreadable):
    """The API server gave no token of our ServiceAccount for workload identity."""


class Refused(ControlError):
    """The control server refused *call*; *status* is the HTTP code, and *detail* has the server's own words."""

    def __init__(self, message: str, status: int, detail: str, call: Call = UNKNOWN_CALL) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.call = call


class BadRequest(Refused):
    """The control server does not accept the request, such as one for a tag that is not permitted."""


class NameInUse(BadRequest):
    """A device has the name of a Tailscale Service.

    A device keeps its name for some seconds after its proxy has ended.
    """


class Unauthorized(Refused):
    """The control server does not accept the OAuth client."""


class Forbidden(Refused):
    """The control server doesn't let the OAuth client make the call, because the client lacks a scope or a tag."""


class Missing(Refused):
    """The control server does not know the device or the Tailscale Service."""


class NotSupported(Refused):
    """The control server's API doesn't have the call. Headscale lacks some calls of Tailscale's API."""
