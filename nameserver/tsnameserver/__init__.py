"""The nameserver of tailnet names."""

__version__ = "0.1.0"
