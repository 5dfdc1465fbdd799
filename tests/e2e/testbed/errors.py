"""The error that the testbed's users see. It says what went wrong, and what to do about it."""


class BedError(Exception):
    """An error whose message tells the user why the testbed can't continue."""
