"""Conformance: each numbered line of what the nameserver promises, asked of a running process."""
