"""Tests of the sources of records, and of the choice of the records that are served."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path, PosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.compiler import build_zone, empty_zone
from tsnameserver.errors import RecordsError
from tsnameserver.records import Records, merge, parse, render
from tsnameserver.source import Documents, Follower, Source, follow_file
from tsnameserver.zone import Serving

from tests.nameserver.samples import SETTINGS, mount
from tests.support.cluster import running

API, FILE, SNAPSHOT = Source.API, Source.FILE, Source.SNAPSHOT


def document(*names: str, **fields: object) -> str:
    ip4 = {f"{name}.ts.net": ["192.0.2.1"] for name in names}
    return render(Records.model_validate({"ip4": ip4, **fields}))


def many(count: int) -> str:
    return document(*(f"n{number}" for number in range(count)))


def served(serving: Serving) -> str:
    """Return the names that have A records, relative to their zone."""
    return " ".join(sorted(wire[1 : wire[0] + 1].decode() for wire, node in serving.zone.nodes.items() if node.a))


@pytest.fixture
def serving() -> Serving:
    return Serving(empty_zone(SETTINGS))


@pytest.fixture
def follower(serving: Serving) -> Follower:
    return Follower(serving, SETTINGS)


@pytest.mark.parametrize("text", [None, "", b"", "{", '{"version":"v1beta1"}', OSError(13, "Permission denied")])
async def test_the_nameserver_has_no_records_before_the_first_valid_documents_and_keeps_the_newest_valid_ones(
    serving: Serving, follower: Follower, text: str | bytes | OSError | None
) -> None:
    await follower.offer(FILE, {"records.json": text})
    assert not serving.zone.loaded
    await follower.offer(FILE, {"records.json": document("a")})
    await follower.offer(FILE, {"records.json": text})
    await follower.offer(FILE, {})
    assert (served(serving), serving.zone.loaded) == ("a", True)


SERVED = {
    "the API server leads": "file9: file9, api5: api5, file10: api5, api4: api4",
    "a newer file": "api5: api5, file6: api5, lost: file6, file7: file7",
    "a file that became older": "api5: api5, file6: api5, file5: api5, lost: api5",
    "a file that was mounted later": "api5: api5, lost: api5, file4: api5, file6: file6",
    "a file without a serial": "api5: api5, lost: api5, file: api5",
    "half of the serials are newer": f"api5: api5, lost: api5, file{2**31 + 5}: api5, file{2**31 + 4}: file{2**31 + 4}",
    "serials begin anew": f"api{2**32 - 1}: api{2**32 - 1}, lost: api{2**32 - 1}, file1: file1",
    "the API server again": "api5: api5, lost: api5, file6: file6, file7: file7, api5: api5, file8: api5",
    "a snapshot while there is nothing else": "snapshot5: snapshot5, snapshot6: snapshot5, api5: api5",
    "a snapshot that comes later": "api5: api5, lost: api5, snapshot9: api5",
    "a snapshot and a file": "snapshot5: snapshot5, file4: snapshot5, file5: snapshot5, file: snapshot5, file6: file6",
}
"""The steps of each case, each as "event: the records that are served after it".

The event "file9" is an offer of the file, with the serial 9. The event "lost" is the loss of the API server.
"""


@pytest.mark.parametrize("steps", SERVED.values(), ids=SERVED)
async def test_the_nameserver_serves_the_records_of_the_preferred_source(
    serving: Serving, follower: Follower, steps: str
) -> None:
    assert (follower.has_none(), follower.reloads.source) == (True, "")
    for what, expected in (step.split(": ") for step in steps.split(", ")):
        label = what.rstrip("0123456789")
        if label == "lost":
            await follower.lose_api()
        else:
            serial = int(what.removeprefix(label) or 0) or None
            await follower.offer(Source[label.upper()], {"records": document(what, serial=serial)})
        assert (served(serving), follower.has_none()) == (expected, False)
        assert follower.reloads.source == expected.rstrip("0123456789")


async def test_the_file_of_records_is_served_until_the_api_server_has_valid_records(
    serving: Serving, follower: Follower
) -> None:
    await follower.offer(API, {"dnsrecords": None})
    await follower.offer(FILE, {"records.json": document("file")})
    assert served(serving) == "file"
    await follower.offer(API, {"dnsrecords": document("api")})
    await follower.offer(API, {})
    assert served(serving) == "api"


async def test_valid_documents_of_the_api_server_are_stored_for_the_snapshot(serving: Serving) -> None:
    kept: list[Sequence[str | bytes]] = []
    follower = Follower(serving, SETTINGS, kept.append)
    whole = document("a", serial=5)
    await follower.offer(FILE, {"records.json": whole})
    await follower.offer(SNAPSHOT, {"snapshot": whole})
    assert kept == []
    await follower.offer(API, {"dnsrecords": whole, "dnsrecords-1": "{", "dnsrecords-2": None})
    await follower.offer(API, {"dnsrecords": "{"})
    assert kept == [[whole]]


async def test_a_problem_of_the_records_is_logged_once_and_again_when_it_returns(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {"bad..ts.net": ["192.0.2.1"], "a.ts.net": ["nonsense"], "a.example.org": []}
    for serial in (1, 2, 3):
        await follower.offer(FILE, {"records.json": render(Records(ip4=bad, serial=serial))})
        await follower.offer(API, {"dnsrecords": "{", "dnsrecords-1": str(serial)})
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for part in ("bad..ts.net", "nonsense", "a.example.org", "dnsrecords is ignored"):
        assert len([warning for warning in warnings if part in warning]) == 1
    for text in (document("a"), "{"):
        await follower.offer(API, {"dnsrecords": text})
    assert caplog.text.count("dnsrecords is ignored") == 2


async def test_the_nameserver_logs_only_a_few_of_hundreds_of_problems_and_the_number_of_the_others(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {f"a{number}.example.org": ["192.0.2.1"] for number in range(500)}
    await follower.offer(FILE, {"records.json": render(Records(ip4=bad))})
    assert len(caplog.records) < 25
    assert "480 more" in caplog.text


async def test_of_several_offers_of_records_during_a_compilation_only_the_newest_is_compiled(
    serving: Serving, follower: Follower
) -> None:
    sizes = []
    async with asyncio.TaskGroup() as group:
        for count in (1000, 1001, 1002, 1003):
            group.create_task(follower.offer(API, {"dnsrecords": many(count)}))
            await asyncio.sleep(0)
        group.create_task(follower.offer(FILE, {"records.json": document("file")}))
        while follower.reloads.loaded < 2:
            sizes.append(len(serving.zone.nodes))
            await asyncio.sleep(0)
    assert list(dict.fromkeys(sizes)) == [0, 1001]
    assert (len(serving.zone.nodes), follower.reloads.loaded) == (1004, 2)


async def test_compiling_many_names_takes_short_steps_and_hides_the_names_from_garbage_collection(
    follower: Follower,
) -> None:
    turns, frozen = 0, gc.get_freeze_count()
    task = asyncio.create_task(follower.offer(FILE, {"records.json": many(2000)}))
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 2000 / 100
    assert gc.get_freeze_count() >= frozen + 2000
    gc.unfreeze()


async def test_after_a_change_only_the_changed_shard_of_the_records_is_parsed(follower: Follower) -> None:
    parsed = []
    old = {f"dnsrecords-{number}": document(f"n{number}", shard=number, shards=3) for number in range(3)}
    new = {**old, "dnsrecords-1": document("new", shard=1, shards=3)}
    for documents in (old, new, dict(new)):
        await follower.offer(API, documents)
        parsed.append(follower.reloads.parsed)
    assert parsed == [3, 4, 4]


async def test_the_error_about_bad_records_keeps_no_earlier_documents_in_memory(follower: Follower) -> None:
    for number in range(5):
        await follower.offer(API, {"dnsrecords": "{" * (number + 1)})
    gc.collect()
    assert [type(each) for each in gc.get_objects()].count(RecordsError) == 1


async def test_successful_and_failed_reloads_of_the_records_are_counted(follower: Follower) -> None:
    started = time.time()
    for text in ("{", document("a", serial=3), document("a", serial=3), document("b", serial=4)):
        await follower.offer(FILE, {"records.json": text})
    reloads = follower.reloads
    assert (reloads.loaded, reloads.failed, reloads.serial) == (2, 1, 4)
    assert (reloads.names, reloads.ip4, reloads.ip6, sum(reloads.buckets)) == (1, 1, 0, 2)
    assert started <= reloads.newest <= time.time()


SHARD = st.builds(
    lambda name, shard, shards: document(name, shard=shard, shards=shards),
    st.sampled_from(["a", "A", "b", "x.b"]),
    st.integers(0, 2),
    st.integers(1, 3),
)
TEXT = st.sampled_from([None, "", "{", document("whole", serial=1)]) | SHARD
OFFER = st.dictionaries(st.sampled_from(["dnsrecords", "dnsrecords-1", "dnsrecords-2"]), TEXT)


@given(st.lists(OFFER, max_size=8))
async def test_after_any_sequence_of_offers_the_zone_has_the_most_recent_complete_set_of_records(
    offers: list[Documents],
) -> None:
    serving = Serving(empty_zone(SETTINGS))
    follower = Follower(serving, SETTINGS)
    expected = serving.zone
    for documents in offers:
        await follower.offer(API, documents)
        records = merge(parse(text) for text in documents.values() if isinstance(text, str) and len(text) > 1)
        expected = expected if records is None else build_zone(records, SETTINGS)
        assert serving.zone == expected


Offers = asyncio.Queue[Documents]


@contextlib.asynccontextmanager
async def following(path: Path, *, optional: bool = False) -> AsyncIterator[Offers]:
    """Run a follower of the file at *path* during the block, and yield the queue of the follower's offers.

    If an *optional* file is missing, the follower offers nothing.
    """
    offers: Offers = asyncio.Queue()

    async def offer(_: Source, documents: Documents) -> None:
        offers.put_nowait(documents)

    async with running(follow_file(path, offer, optional=optional)):
        yield offers


async def offered(offers: Offers, *texts: str | None) -> None:
    expected = [text if text is None else text.encode() for text in texts]
    async with asyncio.timeout(30):
        while list((await offers.get()).values()) != expected:
            continue


@pytest.mark.parametrize("optional", [False, True])
async def test_the_follower_of_the_file_of_records_notices_that_the_file_appears_and_disappears(
    tmp_path: Path, optional: bool
) -> None:
    path = tmp_path / "records.json"
    async with following(path, optional=optional) as offers:
        await asyncio.sleep(0.01)
        assert offers.empty() is optional
        path.write_text("{")
        await offered(offers, "{")
        path.unlink()
        if not optional:
            await offered(offers, None)


def unreadable(_: Path) -> bytes:
    raise OSError(errno.EMFILE, "Too many open files")


class CoarsePath(PosixPath):
    """A path on a file system with coarse time stamps: all writes during a test have the same time stamp."""

    now = 0  # nanoseconds since the epoch

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = super().stat(follow_symlinks=follow_symlinks)
        return os.stat_result((*found[:7], 0, 0, 0), {"st_mtime_ns": self.now, "st_ctime_ns": self.now})


async def test_the_follower_of_the_file_of_records_notices_a_second_change_with_the_same_time_stamp(
    tmp_path: Path,
) -> None:
    CoarsePath.now = time.time_ns()
    path = CoarsePath(tmp_path / "records.json")
    path.write_text("one")
    async with following(path) as offers:
        await offered(offers, "one")
        path.write_text("two")
        await offered(offers, "two")


async def test_an_unreadable_file_of_records_is_offered_as_an_error_and_read_once_it_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.json"
    path.write_text("one")
    os.utime(path, (0, 0))
    monkeypatch.setattr("tsnameserver.source._is_young", lambda _: False)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", unreadable)
        async with following(path) as offers, asyncio.timeout(30):
            (text,) = (await offers.get()).values()
            assert isinstance(text, OSError)
            assert [*(await offers.get()).values()] == [text]  # the same object, which is no news to the nameserver
            broken.undo()
            await offered(offers, "one")


async def test_the_follower_of_the_file_of_records_notices_the_atomic_swap_of_a_mounted_configmap(
    tmp_path: Path,
) -> None:
    mount(tmp_path, "one")
    async with following(tmp_path / "records.json") as offers:
        await offered(offers, "one")
        mount(tmp_path, "two")
        await offered(offers, "two")
        mount(tmp_path, "three", "and its second shard")
        await offered(offers, "three", "and its second shard")
