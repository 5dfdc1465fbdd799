"""Errors of the nameserver. Each class of errors has a reaction of its own:

NameserverError
├── SettingsError     a flag or variable has a value that can't be used: exit 2
├── ListenError       an address can't be bound: exit 1
├── RecordsError      a records document can't be used: the last good zone keeps serving
├── InvalidNameError  a text is no DNS name: that record or zone is left out
├── FormatError       a query is malformed: FORMERR
└── ApiError          the API server refused or ended the watch: list again
    ├── ExpiredError  the version to watch from is too old: list again, without a warning
    └── DeniedError   credentials or RBAC: say how to fix it, retry slowly
"""


class NameserverError(Exception):
    """The root of all errors of the nameserver; the message fits in one line."""


class SettingsError(NameserverError):
    """A flag or an environment variable has a value that can't be used."""


class ListenError(NameserverError):
    """An address can't be listened on."""


class RecordsError(NameserverError):
    """A records document can't be used."""


class InvalidNameError(NameserverError):
    """A text is no DNS name."""


class FormatError(NameserverError):
    """A query is malformed."""


class ApiError(NameserverError):
    """The API server refused a request or ended a watch with an error."""


class ExpiredError(ApiError):
    """The version to watch from is too old."""


class DeniedError(ApiError):
    """The API server doesn't let this ServiceAccount read ConfigMaps."""
