"""Stores the last good records of the API server in a file, for a start while the API server can't be reached.

The file has one records document in each line. New records are written to a second file, which is then renamed. So a
reader finds the old records or the new ones, and never a part. A worker thread writes, so that a slow disk delays no
answer.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0
"""The shortest time between the end of one write and the beginning of the next."""
_PATIENCE_SECONDS = 1.0
"""The seconds after the start for which the snapshot waits for records from the other sources."""


class Snapshot:
    """Keeps the newest documents at *path*, and reads them back."""

    def __init__(self, path: Path, *, retry_seconds: float = 10.0) -> None:
        """After a failed write, wait *retry_seconds* before the next attempt."""
        self._path = path
        self._retry_seconds = retry_seconds
        self._newest: Sequence[str | bytes] = ()
        self._changed = asyncio.Event()
        self._complaint = ""
        self.written = self._modified()
        """Unix time at which the file was written; 0.0 if there is no file."""

    def keep(self, documents: Sequence[str | bytes]) -> None:
        """Remember *documents*, to write them when a second has passed since the previous write.

        Newer documents that come before the write replace them.
        """
        self._newest = documents
        self._changed.set()

    async def write_changes(self) -> None:
        """Write the newest documents after each call of `keep`. This never ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(_write, self._path, self._newest)
            except OSError as error:
                self._complain(error)
                await asyncio.sleep(self._retry_seconds)
                self._changed.set()
            else:
                self.written, self._complaint = time.time(), ""
                await asyncio.sleep(_PAUSE_SECONDS)

    async def offer(self, is_needed: Callable[[], bool], offer: Callable[[dict[str, bytes]], Awaitable[None]]) -> None:
        """Wait a moment for the other sources. After that, *offer* the file's documents if *is_needed* returns True."""
        await asyncio.sleep(_PATIENCE_SECONDS)
        if is_needed() and self.written:
            log.warning("no source has records; trying the snapshot, %.0f s old", time.time() - self.written)
            try:
                lines = self._path.read_bytes().splitlines()
            except OSError as error:
                log.warning("the snapshot can't be read: %s", error)
                return
            await offer({f"line {number} of {self._path}": line for number, line in enumerate(lines, 1)})

    def _complain(self, error: OSError) -> None:
        """Log *error* as a warning, unless it was the previous error and no write has succeeded in between."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("the snapshot can't be written, so a restart without the API server has no records: %s", error)

    def _modified(self) -> float:
        try:
            return self._path.stat().st_mtime
        except OSError:
            return 0.0


def _write(path: Path, documents: Sequence[str | bytes]) -> None:
    """Replace the file at *path* by one with *documents*, atomically, and flush it to the disk."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        for document in documents:
            file.write(_line(document))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _line(document: str | bytes) -> bytes:
    """Return *document* in one line. In JSON, line ends occur only between tokens, so a space can replace them."""
    text = document.encode() if isinstance(document, str) else document
    return text.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
