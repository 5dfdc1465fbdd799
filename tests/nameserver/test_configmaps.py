"""Tests of the list and the watch of ConfigMaps, against a small API server."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tsnameserver.configmaps import ApiSettings, Backoff, ConfigMaps

from tests.nameserver.api_server import LABELS, ApiServer, api_server
from tests.support.cluster import running, until
from tests.support.tls import certified

Texts = Mapping[str, str | None]
SHORT = Backoff(first=0.01, most=0.02, denied=0.03)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with api_server("tailscale") as server:
        yield server


class Followed(NamedTuple):
    """A follower of ConfigMaps, its offers of documents, and whether it has lost the API server."""

    configmaps: ConfigMaps
    offers: asyncio.Queue[Texts]
    lost: asyncio.Event


@asynccontextmanager
async def following(
    url: str, service_account: Path, offer: Callable[[Texts], Any] | None = None, backoff: Backoff = SHORT, **more: Any
) -> AsyncIterator[Followed]:
    """Run a follower of the ConfigMaps at *url* during the block.

    It calls *offer* with the documents. By default, it puts them into the queue of the Followed.
    """
    offers: asyncio.Queue[Texts] = asyncio.Queue()
    lost = asyncio.Event()

    async def lose() -> None:
        lost.set()

    settings = ApiSettings(url, "tailscale", service_account, backoff, **more)
    configmaps = ConfigMaps(settings, offer or offers.put, lose)
    async with asyncio.timeout(30), running(configmaps.follow()):
        yield Followed(configmaps, offers, lost)


async def test_the_follower_offers_all_documents_after_its_list_and_after_every_change(
    api: ApiServer, tmp_path: Path
) -> None:
    api.write("dnsrecords", "one")
    api.write("another", "not ours")
    mebibyte = "x" * (1 << 20)
    async with following(api.url, tmp_path) as followed:
        assert await followed.offers.get() == {"dnsrecords": "one"}
        api.write("dnsrecords-1", mebibyte)
        assert await followed.offers.get() == {"dnsrecords": "one", "dnsrecords-1": mebibyte}
        api.write("dnsrecords", None)
        assert await followed.offers.get() == {"dnsrecords": None, "dnsrecords-1": mebibyte}
        api.write("dnsrecords-x", "not ours")
        api.delete("dnsrecords-1")
        assert await followed.offers.get() == {"dnsrecords": None}
    (_, watch) = api.asked
    assert (watch.query["resourceVersion"], watch.query["allowWatchBookmarks"]) == ("102", "true")
    assert watch.query["labelSelector"] == LABELS


async def test_the_follower_reads_a_long_list_of_configmaps_in_pages(api: ApiServer, tmp_path: Path) -> None:
    texts = dict.fromkeys(("dnsrecords", *(f"dnsrecords-{number}" for number in range(1, 32))), "x")
    for name, text in texts.items():
        api.write(name, text)
    async with following(api.url, tmp_path) as followed:
        assert await followed.offers.get() == texts
    assert [request.query["labelSelector"] for request in api.lists] == [LABELS] * 8


async def test_the_follower_combines_all_changes_during_an_offer_into_the_next_offer(
    api: ApiServer, tmp_path: Path
) -> None:
    taken: asyncio.Queue[Texts] = asyncio.Queue()
    free = asyncio.Event()

    async def take(texts: Texts) -> None:
        taken.put_nowait(texts)
        await free.wait()

    async with following(api.url, tmp_path, take):
        while not api.watches:
            await api.arrivals.get()
        for text in ("first", "second", "last"):
            api.write("dnsrecords", text)
        api.end_watches()
        while api.watches[-1].query["resourceVersion"] != str(api.version):
            await api.arrivals.get()
        free.set()
        assert [await taken.get(), await taken.get()] == [{}, {"dnsrecords": "last"}]


async def test_the_follower_starts_the_next_watch_at_the_newest_resource_version(
    api: ApiServer, tmp_path: Path
) -> None:
    async with following(api.url, tmp_path) as followed:
        await followed.offers.get()
        api.write("dnsrecords", "one")
        await followed.offers.get()
        api.bookmark()
        api.end_watches()
        api.write("dnsrecords", "two")
        while await followed.offers.get() != {"dnsrecords": "two"}:
            continue
    assert (len(api.lists), api.watches[-1].query["resourceVersion"]) == (1, "102")


async def test_the_follower_lists_again_if_its_resource_version_has_expired(api: ApiServer, tmp_path: Path) -> None:
    async with following(api.url, tmp_path) as followed:
        await followed.offers.get()
        for name in ("dnsrecords", "dnsrecords-1"):
            api.write(name, "one")
            while name not in await followed.offers.get():
                continue
        del api.objects["dnsrecords-1"]  # the server has forgotten the event of this deletion
        api.expire()
        assert await followed.offers.get() == {"dnsrecords": "one"}
    assert len(api.lists) == 2


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500, 503])
async def test_the_follower_logs_a_refusal_once_and_keeps_trying(
    api: ApiServer, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    told = status != 410
    api.refuse_with = status
    async with following(api.url, tmp_path) as followed:
        for _ in range(3):
            await api.arrivals.get()
        assert (followed.offers.empty(), followed.lost.is_set(), len(caplog.records)) == (True, told, told)
        api.refuse_with = 0
        assert await followed.offers.get() == {}
    grant = "grant list and watch on configmaps in namespace tailscale to the ServiceAccount nameserver"
    assert (grant in caplog.text) == (status in {401, 403})


async def test_an_event_of_a_watch_resets_the_backoff_of_the_follower(
    api: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If no event reset the backoff, the test would exceed its time limit.

    The backoff after twelve failures in a row is 20 seconds at least.
    """
    patient = Backoff(first=0.02, most=60)
    async with following(api.url, tmp_path, backoff=patient) as followed, asyncio.timeout(10):
        for number in range(13):
            while len(api.watches) <= number:
                await api.arrivals.get()
            while followed.configmaps._failures:
                api.bookmark()
                await asyncio.sleep(0.01)
            api.drop_connections()
    assert [record.levelno for record in caplog.records][:12] == [logging.WARNING] * 12


@pytest.mark.parametrize("status", [410, 503])
async def test_the_backoff_of_the_follower_grows_while_lists_succeed_and_watches_fail(
    api: ApiServer, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    api.refuse_watches_with = status
    async with following(api.url, tmp_path, backoff=Backoff(first=0.01, most=0.04)) as followed:
        while len(api.lists) < 8:
            await api.arrivals.get()
        assert followed.configmaps._failures >= 7
    assert len(caplog.records) == (status == 503)


async def test_the_follower_retries_until_the_api_server_is_reachable(tmp_path: Path) -> None:
    async with api_server("tailscale") as gone:
        url = gone.url
    async with following(url, tmp_path) as followed, api_server("tailscale", int(url.rpartition(":")[2])):
        assert await followed.offers.get() == {}


async def test_the_follower_reads_the_token_again_for_each_request(api: ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with following(api.url, tmp_path) as followed:
        await followed.offers.get()
        api.write("dnsrecords", "one")
        await followed.offers.get()
        token.write_text("second\n")
        api.expire()
        await followed.offers.get()
    sent = [request.headers["Authorization"] for request in api.asked]
    assert (sent[0], sent[2]) == ("Bearer first", "Bearer second")


async def test_the_follower_reads_a_renewed_certificate_authority_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certified(tmp_path)
    (renewed := tmp_path / "renewed").mkdir()
    async with api_server("tailscale", tls=certified(renewed)) as api, following(api.url, tmp_path) as followed:
        await until(lambda: "certificate verify failed" in caplog.text)
        (renewed / "ca.crt").replace(tmp_path / "ca.crt")
        assert await followed.offers.get() == {}


async def test_the_follower_notices_a_silent_partition_when_a_watch_should_have_ended(
    api: ApiServer, tmp_path: Path
) -> None:
    async with following(api.url, tmp_path, watch_seconds=0, grace_seconds=0.1) as followed:
        await followed.offers.get()
        assert followed.configmaps.watched.followed
        await followed.lost.wait()  # the server keeps its watches open, but sends nothing
        assert not followed.configmaps.watched.followed


def test_the_follower_notices_a_silent_partition_within_30_seconds() -> None:
    settings = ApiSettings("http://192.0.2.1", "tailscale")
    assert 0 < settings.watch_seconds < settings.watch_seconds + settings.grace_seconds <= 30


SIGNS: dict[str, Callable[[ApiServer], None]] = {
    "event": lambda api: api.write("another", None),
    "bookmark": lambda api: api.bookmark(),
    "opened watch": lambda api: api.end_watches(),
}


@pytest.mark.parametrize("send", SIGNS.values(), ids=SIGNS)
async def test_each_event_or_start_of_a_watch_updates_the_time_at_which_the_api_server_was_last_heard(
    api: ApiServer, tmp_path: Path, send: Callable[[ApiServer], None]
) -> None:
    async with following(api.url, tmp_path) as followed:
        await followed.offers.get()
        api.write("dnsrecords", "seen by the watch")
        await followed.offers.get()
        watched = followed.configmaps.watched
        before = watched.heard
        send(api)
        await until(lambda: watched.heard != before)  # a watch that gives no sign for 20 s ends
    assert before < watched.heard <= time.time()


async def test_an_unexpected_exception_ends_the_follower_and_the_follower_can_start_again(
    api: ApiServer, tmp_path: Path
) -> None:
    lost = asyncio.Event()

    async def fail(_: Texts) -> None:
        raise ZeroDivisionError

    async def lose() -> None:
        lost.set()

    configmaps = ConfigMaps(ApiSettings(api.url, "tailscale", tmp_path), fail, lose)
    for tries in (1, 2):
        with pytest.RaisesGroup(ZeroDivisionError):
            await configmaps.follow()
        assert (lost.is_set(), configmaps.watched.followed, len(api.lists)) == (True, False, tries)


def test_the_backoff_doubles_at_each_failure_up_to_its_maximum() -> None:
    backoff = Backoff(first=1, most=8)
    for failures, most in ((1, 1), (2, 2), (4, 8), (5, 8), (10_000, 8)):
        assert most / 2 <= backoff.delay(failures) <= most
