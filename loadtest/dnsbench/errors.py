"""The only error that the benchmark raises for its users."""


class BenchError(Exception):
    """The benchmark can't go on; the text says why, and what the user can do."""
