"""Tests of the snapshot, which is the file with the last good records."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tsnameserver.snapshot import Snapshot

from tests.support.cluster import running, until
from tests.support.virtual_time import in_virtual_time, now


def files(folder: Path) -> dict[str, str]:
    """Return the contents of the files in *folder*, by their names."""
    return {path.name: path.read_text() for path in folder.iterdir()}


async def test_the_snapshot_is_written_at_most_once_a_second_and_always_after_the_last_change(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "kept")
    async with running(snapshot.write_changes()):
        snapshot.keep(['{"ä":\r\n1}', b"[\n]"])
        await until(lambda: snapshot.written)
        first = snapshot.written
        assert files(tmp_path) == {"kept": '{"ä":  1}\n[ ]\n'}
        for text in ("1", "2"):
            snapshot.keep([text])
        await until(lambda: snapshot.written > first)
    assert files(tmp_path) == {"kept": "2\n"}
    assert 1 <= snapshot.written - first < 4


async def test_a_reader_of_the_snapshot_never_finds_a_partly_written_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old\n")
    snapshot = Snapshot(path)
    before = snapshot.written
    with path.open() as reader:
        async with running(snapshot.write_changes()):
            snapshot.keep(["new"])
            await until(lambda: snapshot.written > before)
        assert reader.read() == "old\n"  # the file was replaced, not written into
    assert files(tmp_path) == {"kept": "new\n"}


async def test_a_failed_write_of_the_snapshot_is_tried_again_but_logged_only_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "none"
    snapshot = Snapshot(folder / "kept", retry_seconds=0.01)
    async with running(snapshot.write_changes()):
        snapshot.keep(["{}"])
        await until(lambda: caplog.records)
        await asyncio.sleep(0.1)
        folder.mkdir()
        await until(lambda: snapshot.written)
        assert files(folder) == {"kept": "{}\n"}
        assert [message.partition(",")[0] for message in caplog.messages] == ["the snapshot can't be written"]
        folder.rename(tmp_path / "away")
        snapshot.keep(["[]"])
        await until(lambda: len(caplog.records) > 1)  # the second message is about another error


async def test_records_that_arrive_during_a_write_of_the_snapshot_are_written_next(tmp_path: Path) -> None:
    kept, slow = tmp_path / "kept", threading.Event()
    snapshot = Snapshot(kept)
    with ThreadPoolExecutor(1) as disk:
        asyncio.get_running_loop().set_default_executor(disk)
        disk.submit(slow.wait)
        async with running(snapshot.write_changes()):
            snapshot.keep(["1"])
            await asyncio.sleep(0.05)
            snapshot.keep(["2"])
            slow.set()
            await until(lambda: kept.exists() and kept.read_text() == "2\n")


def offers(path: Path, *, needed: bool = True) -> list[tuple[float, list[bytes]]]:
    """Return each offer of the snapshot at *path*: its time in seconds after the start, and its documents.

    If *needed* is false, the nameserver already has other records.
    """
    offered = []

    async def offer(documents: dict[str, bytes]) -> None:
        assert all(str(path) in name for name in documents)
        offered.append((now(), [*documents.values()]))

    in_virtual_time(lambda: Snapshot(path).offer(lambda: needed, offer))()
    return offered


def test_an_existing_snapshot_is_offered_after_a_second_if_no_other_records_have_arrived(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("{}\n[]\n")
    assert offers(tmp_path / "kept") == [(1.0, [b"{}", b"[]"])]
    assert offers(tmp_path / "kept", needed=False) == offers(tmp_path / "none") == []


def test_an_error_while_the_snapshot_is_read_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert offers(tmp_path) == []
    assert "the snapshot can't be read: " in caplog.text


def test_the_nameserver_knows_at_its_start_when_its_snapshot_was_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("{}\n")
    os.utime(tmp_path / "kept", (1700000000, 1700000000))
    assert Snapshot(tmp_path / "kept").written == 1700000000 < time.time()
