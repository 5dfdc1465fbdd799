"""Errors of the API server, in a tree by the way in which callers react to them.

KubeError
├── Unreachable           no answer: the connection was refused or reset, or timed out
├── NotListening          nothing in a Pod listens at the port that we ask for
├── Rewound               resourceVersions went back: list again
└── StatusError           an answer that is a Status
    ├── NotFound          404: the object, or its kind, is not there
    ├── Conflict          409: the object has changed since it was read; requeue its key
    │   └── AlreadyExists 409 on create
    ├── Gone              410: the version to watch from is too old
    ├── Rejected          400, 422: the object is not acceptable as it is
    │   └── NameTaken     no answer: somebody else's object has the name of one of ours
    └── Denied            401, 403: credentials or RBAC
"""

from typing import Final

from tsoperator.api.objects import Object

_LONGEST_WAIT: Final = 60.0  # s, even if the API server asks for more; the longest back-off is as long


class KubeError(Exception):
    """An error: a request to the API server failed."""


class Unreachable(KubeError):
    """An error: the API server gave no answer in time."""


class NotListening(KubeError):
    """An error: nothing in a Pod listens at the port to which we want to connect."""


class Rewound(KubeError):
    """An error: the API server's resourceVersions went back, because its etcd was restored from a backup."""


class StatusError(KubeError):
    """An error: the API server refused the request.

    *status* is the HTTP code, and *reason* is the machine-readable word in its Status. A server that has too much to do
    asks its clients to wait for *retry_after* seconds.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(StatusError):
    """An error: the object, or its kind, is not there."""


class Conflict(StatusError):
    """An error: the object has changed after it was read."""


class AlreadyExists(Conflict):
    """An error: an object of that name exists already."""


class Gone(StatusError):
    """An error: the API server no longer has the resourceVersion to list or watch from."""


class Rejected(StatusError):
    """An error: the API server does not accept the object."""


class NameTaken(Rejected):
    """An error: somebody else's object has the name of one of ours."""


class Denied(StatusError):
    """An error: the operator's credentials or its RBAC do not allow the request."""


_BY_STATUS: dict[int, type[StatusError]] = {
    400: Rejected,
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Rejected,
}


def error_of(status: int, body: Object, where: str, retry_after: str = "") -> StatusError:
    """Return the error for an answer with HTTP code *status*.

    *body* is the decoded Status, *where* the verb and the path of the request, *retry_after* the header Retry-After.
    """
    reason = str(body.get("reason", ""))
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, StatusError)
    if reason == "Expired":
        kind = Gone
    # The API server writes seconds. We ignore the other form of the header, which is a date.
    asked = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    seconds = min(asked, _LONGEST_WAIT) if status == 429 or status >= 500 else 0.0
    return kind(status, reason, f"{where}: {body.get('message') or f'HTTP {status}'}", seconds)
