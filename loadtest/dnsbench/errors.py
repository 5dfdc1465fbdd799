"""The only error that the benchmark raises for its users."""


class BenchError(Exception):
    """An error that ends the benchmark. The text says why, and what the user can do."""
