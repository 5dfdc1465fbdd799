"""Conformance: each fact of README.md, asked of a running nameserver."""
