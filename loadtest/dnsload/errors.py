"""The errors that dnsload raises."""


class DnsloadError(Exception):
    """The base class of this package's errors."""


class InputError(DnsloadError):
    """An error for a run that is impossible as the user asked for it. The text says why."""


class ClientError(DnsloadError):
    """An error for a compiled client that can't be compiled, or that has failed. The text says why."""
