"""Fixtures of all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.cluster import client, sim

__all__ = ["client", "sim"]

# How long an example takes is the machine's business: a deadline would fail tests for that.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what chooses the cluster of the operator's loop tests."""
    words = "run the operator's loop tests on the API server of this KUBECONFIG; once for each worker of -n"
    parser.addoption("--real-api", action="append", default=[], type=Path, metavar="KUBECONFIG", help=words)
