"""Compiles dnsload's client in C for the tests that need it. Without a C compiler these tests are skipped."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from dnsload.client import compile_client

NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@cache
def client_program() -> Path:
    """Return the path of the compiled client. It is compiled only once in each process."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tempfile.mkdtemp(prefix="client-")
    atexit.register(shutil.rmtree, folder)
    return compile_client(Path(folder))
