from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import aiohttp
import pytest
from clustersim.control import Control
from clustersim.tailnet import Device, NewKey
from pydantic import SecretStr
from tsoperator.api.objects import Key, Object
from tsoperator.app import sources
from tsoperator.desired.children import Owner
from tsoperator.desired.findings import Effect, Finding
from tsoperator.desired.proxy import Children, Proxy
from tsoperator.desired.statefulset import ConnectNetworks, EgressByFQDN, EgressByIP, Target
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.runtime.cache import Cache
from tsoperator.tailnet import upkeep as module
from tsoperator.tailnet.devices import Devices, Pace
from tsoperator.tailnet.upkeep import Upkeep
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.objects import FQDN, pod, settings, slim_secret

TAGS = ("tag:k8s",)
SET_TAGS = ("POST", "/api/v2/device/{id}/tags")
SET_NAME = ("POST", "/api/v2/device/{id}/name")
ROUTER = ConnectNetworks(1)


class Tailnet(NamedTuple):
    """A tailnet with what looks after the proxies' devices in it, which takes over names."""

    control: Control
    devices: Devices
    upkeep: Upkeep

    def join(self, hostname: str = "db") -> Device:
        return self.control.register(self.control.create_key(NewKey(TAGS)).key, hostname)

    async def look_after(self, wanted: Proxy, children: Children) -> list[Finding]:
        await self.devices.refresh()
        return await self.upkeep.look_after(wanted, children)


@pytest.fixture
async def tailnet() -> AsyncIterator[Tailnet]:
    control = Control()
    credentials = Credentials(control.client_id, SecretStr(control.client_secret))
    async with control.serve() as url, aiohttp.ClientSession() as session:
        client = TailnetClient(session, url, lambda: credentials, retry=Retry(tries=1))
        devices = Devices(client, Pace(first=0, longest=0))
        cache = Cache(sources("tailscale"))
        yield Tailnet(control, devices, Upkeep(client, devices, cache, settings(take_over_names=True)))


def proxy(target: Target = ROUTER, tags: Sequence[str] = TAGS) -> Proxy:
    config = ProxyConfig("db", "https://controlplane.tailscale.com")
    return Proxy(Owner("svc", Key("default", "db")), "uid", target, config, tags)


def reported(*devices: Device, restarts: int = 0, fqdn: bool = True) -> Children:
    """Return the children of a proxy whose replicas have these devices."""
    secrets = [
        slim_secret(
            f"ts-db-{ordinal}",
            {"device_id": each.node_id, **({"device_fqdn": f"{each.name}."} if fqdn else {})},
        )
        for ordinal, each in enumerate(devices)
    ]
    status: Object = {"status": {"containerStatuses": [{"restartCount": restarts}]}}
    return Children(secrets=secrets, pods=[{**pod("ts-db-0", "pod-uid"), **status}])


async def test_tags_in_another_order_are_the_same(tailnet: Tailnet) -> None:
    device = tailnet.join()
    tailnet.control.update(replace(device, tags=("tag:b", "tag:a", "tag:b")))
    assert await tailnet.look_after(proxy(tags=("tag:a", "tag:b")), reported(device)) == []
    assert tailnet.control.requests[SET_TAGS] == 0


async def test_a_device_that_is_not_known_is_left_alone(tailnet: Tailnet) -> None:
    device = tailnet.join()
    assert await tailnet.upkeep.look_after(proxy(tags=("tag:a",)), reported(device)) == []
    assert tailnet.control.requests[SET_TAGS] == 0


async def test_every_replica_gets_the_tags(tailnet: Tailnet) -> None:
    both = [tailnet.join(), tailnet.join()]
    found = await tailnet.look_after(proxy(ConnectNetworks(2), ("tag:a",)), reported(*both))
    assert [each.effect for each in found] == [Effect.NEWS] * 2
    assert [device.tags for device in tailnet.control.devices.values()] == [("tag:a",)] * 2
    assert await tailnet.upkeep.look_after(proxy(ConnectNetworks(2), ("tag:a",)), reported(*both)) == []


class Failure(NamedTuple):
    status: int
    again: float


@pytest.mark.parametrize("failure", [Failure(400, 600), Failure(403, 600), Failure(500, 30), Failure(429, 30)])
async def test_what_failed_is_told_and_left_alone_for_a_while(tailnet: Tailnet, failure: Failure) -> None:
    device = tailnet.join()
    tailnet.control.fail(failure.status, count=9, path="/tags")
    for _ in range(3):
        [found] = await tailnet.look_after(proxy(tags=("tag:a",)), reported(device))
        assert (found.effect, found.reason) == (Effect.FAILED, "TagsRefused")
        assert found.again is not None
        assert failure.again - 10 < found.again <= failure.again
    assert tailnet.control.requests[SET_TAGS] == 1


async def test_other_tags_are_tried_at_once(tailnet: Tailnet) -> None:
    device = tailnet.join()
    tailnet.control.fail(400, path="/tags")
    await tailnet.look_after(proxy(tags=("tag:a",)), reported(device))
    [found] = await tailnet.look_after(proxy(tags=("tag:b",)), reported(device))
    assert (found.effect, found.reason) == (Effect.NEWS, "TagsChanged")
    assert "tag:k8s" in found.message


async def test_what_failed_is_tried_again_after_that_while(tailnet: Tailnet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LATER", 0.0)
    device = tailnet.join()
    tailnet.control.fail(400, path="/tags")
    effects = [(await tailnet.look_after(proxy(tags=("tag:a",)), reported(device)))[0].effect for _ in range(2)]
    assert effects == [Effect.FAILED, Effect.NEWS]


async def test_a_control_server_that_hangs_holds_nothing_up(tailnet: Tailnet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CALL", 0.05)
    device = tailnet.join()
    await tailnet.devices.refresh()
    tailnet.control.latency = 3600
    [found] = await tailnet.upkeep.look_after(proxy(tags=("tag:a",)), reported(device))
    assert "did not answer" in found.message


async def test_a_device_that_went_meanwhile_is_no_failure(tailnet: Tailnet) -> None:
    device = tailnet.join()
    await tailnet.devices.refresh()
    tailnet.control.delete_device(device)
    assert await tailnet.upkeep.look_after(proxy(tags=("tag:a",)), reported(device)) == []


async def test_a_device_that_came_back_since_the_list_keeps_its_name(tailnet: Tailnet) -> None:
    holder, device = tailnet.join(), tailnet.join()
    tailnet.control.disconnect(holder.node_id, seconds=600)
    await tailnet.devices.refresh()
    tailnet.control.update(replace(tailnet.control.devices[holder.node_id], connected=True))
    [found] = await tailnet.upkeep.look_after(proxy(), reported(device))
    assert (found.effect, found.reason) == (Effect.NOTICE, "NameHeld")
    assert "is online" in found.message
    assert holder.node_id in tailnet.control.devices


async def test_a_name_that_is_held_is_no_matter_before_the_proxy_has_another(tailnet: Tailnet) -> None:
    tailnet.join()
    assert await tailnet.upkeep.look_after(proxy(), Children()) == []


async def test_a_holder_that_went_since_the_list_is_not_in_the_way(tailnet: Tailnet) -> None:
    holder, device = tailnet.join(), tailnet.join()
    tailnet.control.disconnect(holder.node_id, seconds=600)
    await tailnet.devices.refresh()
    tailnet.control.delete_device(tailnet.control.devices[holder.node_id])
    [found] = await tailnet.upkeep.look_after(proxy(), reported(device))
    assert tailnet.control.devices[device.node_id].name == FQDN
    assert "deleted" not in found.message


async def test_a_name_that_its_hostname_does_not_bring_is_given(tailnet: Tailnet) -> None:
    holder, device = tailnet.join(), tailnet.join()
    tailnet.control.delete_device(holder)
    tailnet.control.answer("{}", path="/name")  # as a server that leaves a device the number it once got
    await tailnet.look_after(proxy(), reported(device))
    assert tailnet.control.devices[device.node_id].name == FQDN
    assert tailnet.control.requests[SET_NAME] == 2


class Name(NamedTuple):
    name: str
    hostname: str = "db"


@pytest.mark.parametrize(
    "case", [Name("db"), Name("orders"), Name("db-x"), Name("db-1-1"), Name("db-1", "web")], ids=str
)
async def test_other_names_are_somebodys_wish(tailnet: Tailnet, case: Name) -> None:
    device = tailnet.join(case.hostname)
    tailnet.control.rename_device(device, case.name)
    assert await tailnet.look_after(proxy(), reported(device)) == []
    assert tailnet.control.requests[SET_NAME] == 0


async def test_a_list_that_cannot_be_read_lets_a_new_proxy_come_up(tailnet: Tailnet) -> None:
    tailnet.control.scopes = {"auth_keys"}
    [found] = await tailnet.upkeep.look_after(proxy(), Children())
    assert (found.effect, found.reason) == (Effect.WARNING, "NameNotTakenOver")


class Move(NamedTuple):
    target: Target
    new: Device | None
    words: str


OLD = Device("1", "n1", FQDN, "db", ("100.64.0.9", "fd7a:115c:a1e0::9"), ("tag:db",), "2026-01-02T03:04:05Z", "k1")
BY_NAME = EgressByFQDN("DB.tail1234.ts.net.")
BY_IP = EgressByIP("100.64.0.9")
MOVES = {
    "gone": Move(BY_NAME, None, "DB.tail1234.ts.net, to which this leads, is not in the tailnet any more"),
    "address gone": Move(BY_IP, None, "100.64.0.9, to which this leads, is not in the tailnet any more"),
    "IPv6 address gone": Move(EgressByIP("FD7A:115C:A1E0:0::9"), None, "is not in the tailnet any more"),
    "renamed": Move(BY_NAME, replace(OLD, name="orders.tail1234.ts.net"), "name orders.tail1234.ts.net instead"),
    "readdressed": Move(BY_IP, replace(OLD, addresses=("100.64.0.10",)), f"device {FQDN} does not have the address"),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
async def test_a_destination_that_moves_is_told(tailnet: Tailnet, move: Move) -> None:
    tailnet.control.update(OLD)
    device = tailnet.join("default-db")
    assert await tailnet.look_after(proxy(move.target), reported(device)) == []
    tailnet.control.delete_device(OLD)
    if move.new:
        tailnet.control.update(move.new)
    [found] = await tailnet.look_after(proxy(move.target), reported(device))
    assert (found.effect, found.reason) == (Effect.NOTICE, "TargetGone")
    assert move.words in found.message


@pytest.mark.parametrize(
    "move",
    [
        Move(BY_NAME, replace(OLD, addresses=("100.64.0.10",)), ""),
        Move(BY_IP, replace(OLD, name="orders.tail1234.ts.net"), ""),
    ],
)
async def test_a_destination_that_is_still_found_is_no_news(tailnet: Tailnet, move: Move) -> None:
    tailnet.control.update(OLD)
    device = tailnet.join("default-db")
    await tailnet.look_after(proxy(move.target), reported(device))
    assert move.new is not None
    tailnet.control.update(move.new)
    assert await tailnet.look_after(proxy(move.target), reported(device)) == []


class Report(NamedTuple):
    restarts: int
    fqdn: bool
    reasons: list[str]


@pytest.mark.parametrize(
    "report", [Report(0, False, []), Report(1, True, []), Report(1, False, ["TargetNotFound"])], ids=str
)
async def test_a_proxy_that_finds_no_destination_is_told(tailnet: Tailnet, report: Report) -> None:
    device = tailnet.join("default-db")
    children = reported(device, restarts=report.restarts, fqdn=report.fqdn)
    assert [each.reason for each in await tailnet.look_after(proxy(BY_NAME), children)] == report.reasons
