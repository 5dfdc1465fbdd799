"""The errors that dnsload raises."""


class DnsloadError(Exception):
    """The root of this package's errors."""


class InputError(DnsloadError):
    """The run that the user asked for is impossible; the text says why."""


class ClientError(DnsloadError):
    """The compiled client can't be compiled, or it has failed; the text says why."""
