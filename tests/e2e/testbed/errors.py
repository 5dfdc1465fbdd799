"""The one error that the testbed's users see: what is wrong and what to do about it."""


class BedError(Exception):
    """Says in words for people why the testbed can't go on."""
