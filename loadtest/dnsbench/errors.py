"""The one error that the benchmark's users see: what is wrong and what to do about it."""


class BenchError(Exception):
    """Says in words for people why the benchmark can't go on."""
