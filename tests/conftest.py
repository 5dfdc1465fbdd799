"""Fixtures of all tests."""

from hypothesis import settings

from tests.support.cluster import client, sim

__all__ = ["client", "sim"]

# How long an example takes is the machine's business: a deadline would fail tests for that.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
