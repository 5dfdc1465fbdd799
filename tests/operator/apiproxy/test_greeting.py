"""Pings to the devices of callers after tailscaled has started, so that their first connection needn't wait."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tsoperator.apiproxy.greeting import MOST_GREETED, Greeter, RecentCallers, online_peers
from tsoperator.apiproxy.localapi import LocalApi

from tests.support.apiproxy import Ground, until

PHONE = {"Online": True, "TailscaleIPs": ["100.64.0.1", "fd7a::1"]}
SERVER = {"Online": True, "TailscaleIPs": ["100.64.0.2"], "Tags": ["tag:web"]}
AWAY = {"Online": False, "TailscaleIPs": ["100.64.0.3"]}
MANY = {f"n{number}": {"Online": True, "TailscaleIPs": [f"fd7a::{number:x}"]} for number in range(MOST_GREETED + 1)}
ODD: list[bytes] = [
    b"",
    b"[]",
    b'{"Peer":[1]}',
    b'{"Peer":{"n":1}}',
    b'{"Peer":{"n":{"Online":true,"TailscaleIPs":1}}}',
]


@asynccontextmanager
async def greeting(ground: Ground, callers: RecentCallers) -> AsyncIterator[None]:
    greeter = asyncio.create_task(Greeter(LocalApi(ground.socket), callers, pause=0.01).run())
    try:
        yield
    finally:
        greeter.cancel()
        with suppress(asyncio.CancelledError):
            await greeter


async def test_the_proxy_pings_recent_callers_each_time_when_tailscaled_has_started(ground: Ground) -> None:
    callers = RecentCallers()
    callers.note("100.64.0.7", asyncio.get_running_loop().time())
    tailscaled = ground.tailscaled
    async with greeting(ground, callers):
        await until(lambda: tailscaled.pinged == ["100.64.0.7"])
        tailscaled.status = {"BackendState": "Starting"}
        tailscaled.end()
        await until(lambda: tailscaled.statuses > 3)
        assert tailscaled.pinged == ["100.64.0.7"]
        tailscaled.status = {"BackendState": "Running"}
        await until(lambda: tailscaled.pinged == ["100.64.0.7"] * 2)


async def test_a_new_api_server_proxy_that_has_had_no_caller_pings_all_devices_that_are_online(ground: Ground) -> None:
    ground.tailscaled.status = {"BackendState": "Running", "Peer": {"a": SERVER, "b": AWAY, "c": PHONE}}
    async with greeting(ground, RecentCallers()):
        await until(lambda: {*ground.tailscaled.pinged} == {"100.64.0.1", "100.64.0.2"})


@pytest.mark.parametrize("raw", [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"])
async def test_an_odd_answer_of_tailscaled_does_not_end_the_task_that_pings_callers(ground: Ground, raw: bytes) -> None:
    tailscaled = ground.tailscaled
    tailscaled.raw = raw
    async with greeting(ground, RecentCallers()):
        await until(lambda: tailscaled.statuses > 3)
        tailscaled.raw = b""
        tailscaled.status = {"BackendState": "Running", "Peer": {"c": PHONE}}
        await until(lambda: tailscaled.pinged == ["100.64.0.1"])


async def test_the_proxy_remembers_the_address_of_a_caller(ground: Ground) -> None:
    async with ground.serving(), ground.connected() as caller:
        await caller.ask()
        assert [*ground.callers.since(asyncio.get_running_loop().time())] == ["100.64.0.7"]


def test_the_list_of_recent_callers_has_the_last_hundred_callers_of_the_last_ten_minutes() -> None:
    callers = RecentCallers()
    for number in range(MOST_GREETED + 1):
        callers.note(f"n{number}", number)
    callers.note("n1", 200)
    assert callers.since(0)[0] == "n1"
    assert {*callers.since(0)} == {f"n{number}" for number in range(1, MOST_GREETED + 1)}
    assert [*callers.since(200 + 599)] == ["n1"]
    assert not callers.since(200 + 600)


TABLE: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "users first": ({"a": SERVER, "b": AWAY, "c": PHONE}, ["100.64.0.1", "100.64.0.2"]),
    "no addresses": ({"a": {"Online": True, "TailscaleIPs": None}}, []),
    "some, not all of them": (MANY, [f"fd7a::{number:x}" for number in range(MOST_GREETED)]),
    "no peers": ({}, []),
}


@pytest.mark.parametrize(("peers", "addresses"), TABLE.values(), ids=TABLE)
def test_the_devices_that_are_online_are_read_from_the_status_of_tailscaled(
    peers: dict[str, Any], addresses: list[str]
) -> None:
    assert online_peers(json.dumps({"Peer": peers}).encode()) == addresses


@pytest.mark.parametrize("raw", ODD)
def test_a_status_of_tailscaled_that_cannot_be_read_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="can't be read"):
        online_peers(raw)
