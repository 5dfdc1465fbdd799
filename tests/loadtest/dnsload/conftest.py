"""The compiled client."""

from pathlib import Path

import pytest
from dnsload.client import compile_client


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the client."""
    return compile_client(tmp_path_factory.mktemp("client"))
