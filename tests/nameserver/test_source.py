"""Tests of following records: what is served, and from where."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tsnameserver.compiler import empty_zone
from tsnameserver.records import Records, render
from tsnameserver.source import Documents, Follower, Source, follow_file
from tsnameserver.zone import Serving

from tests.nameserver.samples import SETTINGS


def document(name: str, **fields: object) -> str:
    """Return a document with one name."""
    return render(Records.model_validate({"ip4": {f"{name}.ts.net": ["192.0.2.1"]}, **fields}))


def names(serving: Serving) -> set[str]:
    return set(serving.zone.compiled)


@pytest.fixture
def serving() -> Serving:
    return Serving(empty_zone(SETTINGS))


@pytest.fixture
def follower(serving: Serving) -> Follower:
    return Follower(serving, SETTINGS)


def test_good_documents_are_served(serving: Serving, follower: Follower) -> None:
    follower.offer(Source.FILE, {"records.json": document("a")})
    assert serving.zone.loaded
    assert names(serving) == {"a.ts.net"}


@pytest.mark.parametrize("text", [None, "", b"", "{", '{"version":"v1beta1"}', OSError(13, "Permission denied")])
def test_before_good_documents_there_is_no_zone_and_after_them_the_last_stays(
    serving: Serving, follower: Follower, text: str | bytes | OSError | None
) -> None:
    follower.offer(Source.FILE, {"records.json": text})
    assert not serving.zone.loaded
    follower.offer(Source.FILE, {"records.json": document("a")})
    follower.offer(Source.FILE, {"records.json": text})
    follower.offer(Source.FILE, {})
    assert names(serving) == {"a.ts.net"}


def test_the_api_server_leads_once_it_has_answered(serving: Serving, follower: Follower) -> None:
    follower.offer(Source.API, {"dnsrecords": None})
    follower.offer(Source.FILE, {"records.json": document("file")})
    assert names(serving) == {"file.ts.net"}
    follower.offer(Source.API, {"dnsrecords": document("api")})
    assert names(serving) == {"api.ts.net"}
    follower.offer(Source.FILE, {"records.json": document("newer")})
    follower.offer(Source.API, {})
    assert names(serving) == {"api.ts.net"}


def test_shards_are_served_when_the_set_is_whole(serving: Serving, follower: Follower) -> None:
    first, second = document("a", shard=0, shards=2), document("b", shard=1, shards=2)
    follower.offer(Source.API, {"dnsrecords": first})
    assert not serving.zone.loaded
    follower.offer(Source.API, {"dnsrecords": first, "dnsrecords-1": second, "dnsrecords-2": "{"})
    assert names(serving) == {"a.ts.net", "b.ts.net"}


def test_what_is_wrong_is_said_once(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    bad = {"bad..ts.net": ["192.0.2.1"], "a.ts.net": ["nonsense"], "a.example.org": []}
    for serial in (1, 2, 3):
        follower.offer(Source.FILE, {"records.json": render(Records(ip4=bad, serial=serial))})
        follower.offer(Source.API, {"dnsrecords": "{"})
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for part in ("bad..ts.net", "nonsense", "a.example.org", "dnsrecords is ignored"):
        assert len([warning for warning in warnings if part in warning]) == 1


def test_a_flood_of_problems_is_cut_short(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    bad = {f"a{number}.example.org": ["192.0.2.1"] for number in range(500)}
    follower.offer(Source.FILE, {"records.json": render(Records(ip4=bad))})
    assert len(caplog.records) < 25
    assert "480 more" in caplog.text


Offers = asyncio.Queue[Documents]


@contextlib.asynccontextmanager
async def following(path: Path) -> AsyncIterator[Offers]:
    """Follow *path*; what is offered comes out of the queue."""
    offers: Offers = asyncio.Queue()
    task = asyncio.create_task(follow_file(path, lambda _, documents: offers.put_nowait(documents)))
    try:
        yield offers
    finally:
        task.cancel()
        await asyncio.wait([task])


async def offered(offers: Offers, *texts: str | None) -> None:
    """Wait for an offer of *texts*."""
    expected = [text if text is None else text.encode() for text in texts]
    async with asyncio.timeout(1):
        while list((await offers.get()).values()) != expected:
            continue


async def test_a_file_that_comes_and_goes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    async with following(path) as offers:
        await offered(offers, None)
        path.write_text("{")
        await offered(offers, "{")
        path.unlink()
        await offered(offers, None)


async def test_a_file_that_is_written_again_with_the_same_size_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    async with following(path) as offers:
        for name in ("a", "b", "c"):
            path.write_text(document(name))
            await offered(offers, document(name))


async def test_a_file_that_cannot_be_read_is_offered_with_the_reason(tmp_path: Path) -> None:
    async with following(tmp_path) as offers, asyncio.timeout(1):
        (text,) = (await offers.get()).values()
    assert isinstance(text, IsADirectoryError)


def mount(volume: Path, version: str, *texts: str) -> None:
    """Swap the files of *volume* as the kubelet does."""
    (volume / version).mkdir()
    for number, text in enumerate(texts):
        name = f"records-{number}.json" if number else "records.json"
        (volume / version / name).write_text(text)
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(Path("..data") / name)
    (volume / "..data_tmp").symlink_to(version)
    (volume / "..data_tmp").replace(volume / "..data")


async def test_the_kubelets_swap_is_noticed(tmp_path: Path) -> None:
    mount(tmp_path, "..1", "one")
    async with following(tmp_path / "records.json") as offers:
        await offered(offers, "one")
        mount(tmp_path, "..2", "two")
        await offered(offers, "two")
        mount(tmp_path, "..3", "three", "and its second shard")
        await offered(offers, "three", "and its second shard")
