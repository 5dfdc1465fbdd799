"""Tests of the snapshot: what is written when, and what is read when."""

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tsnameserver.snapshot import Snapshot

from tests.support.virtual_time import in_virtual_time, now


@asynccontextmanager
async def writing(snapshot: Snapshot) -> AsyncIterator[None]:
    """Let *snapshot* write."""
    task = asyncio.create_task(snapshot.write_changes())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(is_so: Callable[[], object]) -> None:
    """Wait for the end of a write, which comes without a word."""
    while not is_so():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.005)


def files(folder: Path) -> dict[str, str]:
    """Return what the files of *folder* have, by their names."""
    return {path.name: path.read_text() for path in folder.iterdir()}


async def test_changes_are_written_at_most_once_a_second_and_the_last_is(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "kept")
    async with writing(snapshot):
        snapshot.keep(["{}", "[]"])
        await until(lambda: snapshot.written)
        first = snapshot.written
        assert files(tmp_path) == {"kept": "{}\n[]\n"}
        for text in ("1", "2"):
            snapshot.keep([text])
        await until(lambda: snapshot.written > first)
    assert files(tmp_path) == {"kept": "2\n"}
    assert 1 <= snapshot.written - first < 4


async def test_a_reader_never_finds_a_part(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old\n")
    snapshot = Snapshot(path)
    before = snapshot.written
    with path.open() as reader:
        async with writing(snapshot):
            snapshot.keep(["new"])
            await until(lambda: snapshot.written > before)
        assert reader.read() == "old\n"  # the file was replaced, not written into
    assert files(tmp_path) == {"kept": "new\n"}


async def test_a_document_of_many_lines_becomes_one(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "kept")
    names = {"ip4": {"ä.ts.net": ["192.0.2.1"]}}
    async with writing(snapshot):
        snapshot.keep([json.dumps(names, indent=1).replace("\n", "\r\n"), b"{\n}"])
        await until(lambda: snapshot.written)
    first, second = files(tmp_path)["kept"].splitlines()
    assert (json.loads(first), json.loads(second)) == (names, {})


async def test_a_snapshot_that_cannot_be_written_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "none"
    snapshot = Snapshot(folder / "kept", retry_seconds=0.01)
    async with writing(snapshot):
        snapshot.keep(["{}"])
        await until(lambda: caplog.records)
        await asyncio.sleep(0.1)
        folder.mkdir()
        await until(lambda: snapshot.written)
        assert files(folder) == {"kept": "{}\n"}
        assert [each.getMessage().partition(",")[0] for each in caplog.records] == ["the snapshot can't be written"]
        folder.rename(tmp_path / "away")
        snapshot.keep(["[]"])
        await until(lambda: len(caplog.records) > 1)  # that is another trouble


async def test_what_is_to_be_kept_while_another_is_written_is_written_next(tmp_path: Path) -> None:
    snapshot, slow = Snapshot(tmp_path / "kept"), threading.Event()
    with ThreadPoolExecutor(1) as disk:
        asyncio.get_running_loop().set_default_executor(disk)
        disk.submit(slow.wait)
        async with writing(snapshot):
            snapshot.keep(["1"])
            await asyncio.sleep(0.05)
            snapshot.keep(["2"])
            slow.set()
            await until(lambda: files(tmp_path) == {"kept": "2\n"})


class Offers(list[tuple[float, Sequence[bytes]]]):
    """The lines that were offered, each set with its time."""

    async def add(self, documents: dict[str, bytes]) -> None:
        assert all("kept" in name for name in documents)
        self.append((now(), [*documents.values()]))


@pytest.mark.parametrize(("needed", "offers"), [(True, [(1.0, [b"{}", b"[]"])]), (False, [])])
def test_a_snapshot_is_offered_after_a_second_if_it_is_needed(tmp_path: Path, needed: bool, offers: Offers) -> None:
    (tmp_path / "kept").write_text("{}\n[]\n")
    offered = Offers()
    in_virtual_time(lambda: Snapshot(tmp_path / "kept").offer(lambda: needed, offered.add))()
    assert offered == offers


@in_virtual_time
async def test_a_missing_snapshot_is_not_offered() -> None:
    offered = Offers()
    await Snapshot(Path("/none/kept")).offer(lambda: True, offered.add)
    assert offered == []


def test_a_snapshot_that_cannot_be_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    offered = Offers()
    in_virtual_time(lambda: Snapshot(tmp_path).offer(lambda: True, offered.add))()
    assert "the snapshot can't be read: " in caplog.text
    assert offered == []


def test_the_age_of_a_snapshot_is_known_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("{}\n")
    os.utime(tmp_path / "kept", (1700000000, 1700000000))
    assert Snapshot(tmp_path / "kept").written == 1700000000 < time.time()
