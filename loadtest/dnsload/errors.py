"""What can go wrong before a run starts."""


class DnsloadError(Exception):
    """The root of this package's errors."""


class InputError(DnsloadError):
    """What was asked for can't be run; the text says why."""


class ClientError(DnsloadError):
    """The compiled client can't be built, or it failed; the text says why."""
