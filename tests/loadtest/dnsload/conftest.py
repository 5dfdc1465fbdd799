"""The compiled client."""

from pathlib import Path

import pytest

from tests.loadtest.compiling import client_in


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the client."""
    return client_in(tmp_path_factory.mktemp("client"))
