"""The compiled client."""

from pathlib import Path

import pytest

from tests.loadtest.compiling import client_program


@pytest.fixture
def program() -> Path:
    """Return the path of the client."""
    return client_program()
