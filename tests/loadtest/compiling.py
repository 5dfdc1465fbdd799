"""The compiled client of dnsload, for tests that need it; without a C compiler they are skipped."""

import shutil
from pathlib import Path

import pytest
from dnsload.client import compile_client

NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def client_in(folder: Path) -> Path:
    """Compile the client into *folder*."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    return compile_client(folder)
