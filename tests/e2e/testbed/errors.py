"""The error that the testbed's users see. It says what went wrong, and what to do about it."""


class BedError(Exception):
    """An error with words for people that say why the testbed can't continue."""
