"""A lock that keeps two commands from using the same folder at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.testbed.errors import BedError


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Hold the lock of *folder* during the block. The folder is created if necessary.

    *doing* names this command in the error that another command gets meanwhile.

    Raises: BedError: another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            file.seek(0)
            raise BedError(f"another testbed command works on {folder}: {file.read().strip()}") from busy
        file.truncate(0)
        file.write(f"{doing}, pid {os.getpid()}\n")
        file.flush()
        yield
