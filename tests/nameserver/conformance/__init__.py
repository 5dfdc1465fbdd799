"""Conformance tests: each numbered fact in README.md is checked on a running nameserver."""
