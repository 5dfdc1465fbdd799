import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from clustersim.control import Control
from clustersim.tailnet import Device, NewKey
from pydantic import SecretStr
from tsoperator import devices as module
from tsoperator.devices import Devices, Pace
from tsoperator.tsclient import timeslice
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import Forbidden, Unavailable
from tsoperator.tsclient.models import Device as Listed
from tsoperator.tsclient.oauth import Credentials
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running, until

LIST = ("GET", "/api/v2/tailnet/-/devices")
QUICK = Pace(first=0.01, longest=0.02, interval=0.02, denied=0.02)
WHEN_ASKED = Pace(first=0.01, longest=0.02, interval=3600)


@pytest.fixture(params=["tailscale", "headscale"])
def control(request: pytest.FixtureRequest) -> Control:
    return Control("tail.example.org", headscale=request.param == "headscale")


@pytest.fixture
async def client(control: Control) -> AsyncIterator[TailnetClient]:
    credentials = Credentials(control.client_id, SecretStr(control.client_secret))
    async with control.serve() as url, aiohttp.ClientSession() as session:
        yield TailnetClient(session, url, lambda: credentials, retry=Retry(tries=1))


def join(control: Control, hostname: str = "db") -> Device:
    return control.register(control.create_key(NewKey(("tag:k8s",))).key, hostname)


async def test_a_device_is_found_by_its_id_name_label_and_addresses(control: Control, client: TailnetClient) -> None:
    device = join(control)
    devices = Devices(client)
    await devices.refresh()
    assert devices.get(device.node_id) == devices.known(device.node_id) is not None
    for text in ("DB.tail.example.org", "db.tail.example.org.", "Db", *device.addresses, "FD7A:115C:A1E0:0::1"):
        found = devices.at(text)
        assert found is not None, text
        assert found.node_id == device.node_id
    assert devices.at("other") is None


async def test_a_name_of_another_tailnet_is_not_the_device_with_that_label() -> None:
    control = Control()
    join(control)
    credentials = Credentials(control.client_id, SecretStr(control.client_secret))
    async with control.serve() as url, aiohttp.ClientSession() as session:
        devices = Devices(TailnetClient(session, url, lambda: credentials))
        await devices.refresh()
        assert devices.at("db.tail1234.ts.net") is not None
        assert devices.at("db.tail9999.ts.net") is None


async def test_a_device_shared_by_another_tailnet_has_no_label_here(control: Control, client: TailnetClient) -> None:
    shared = {"id": "7", "nodeId": "n7", "name": "db.tail9999.ts.net", "isExternal": True}
    control.answer(f'{{"devices": [{str(shared).replace(chr(39), chr(34)).replace("True", "true")}]}}', path=LIST[1])
    devices = Devices(client)
    await devices.refresh()
    assert devices.at("db.tail9999.ts.net") is not None
    assert devices.at("db") is None


async def test_the_list_is_read_when_it_is_first_asked_for_and_then_what_is_new(
    control: Control, client: TailnetClient
) -> None:
    first = join(control)
    devices = Devices(client, WHEN_ASKED)
    async with running(devices.follow()):
        assert devices.get(first.node_id) is None
        await until(lambda: devices.known(first.node_id) is not None)
        second = join(control, "web")
        assert devices.get(second.node_id) is None
        await until(lambda: devices.known(second.node_id) is not None)
        assert devices.get(first.node_id) is not None
    assert control.requests[LIST] == 2


async def test_what_nobody_asks_for_is_not_read(control: Control, client: TailnetClient) -> None:
    device = join(control)
    asked, unasked = Devices(client, QUICK), Devices(client, QUICK)
    async with running(asked.follow(), unasked.follow()):
        asked.get(device.node_id)
        await until(lambda: control.requests[LIST] > 3)
    assert asked.known(device.node_id) is not None
    assert unasked.known(device.node_id) is None


async def test_a_device_that_waits_for_approval_is_looked_at_again(control: Control, client: TailnetClient) -> None:
    device = join(control)
    control.update(replace(device, authorized=False))
    devices = Devices(client, WHEN_ASKED)
    await devices.refresh()
    control.update(replace(device, authorized=True))
    async with running(devices.follow()):
        assert devices.get(device.node_id) is not None
        await until(lambda: devices.known(device.node_id).authorized)  # type: ignore[union-attr]  # it is known


async def test_listeners_are_told_of_what_matters_and_of_nothing_else(control: Control, client: TailnetClient) -> None:
    changes: list[tuple[Listed | None, Listed | None]] = []
    device, other = join(control), join(control, "web")
    devices = Devices(client, QUICK)
    devices.listen(lambda old, new: changes.append((old, new)))
    async with running(devices.follow()):
        devices.get(device.node_id)
        await until(lambda: len(changes) == 2)
        control.update(replace(device, tags=("tag:other",)))
        await until(lambda: len(changes) == 3)
        control.delete_device(control.devices[device.node_id])
        await until(lambda: len(changes) == 4)
        count = control.requests[LIST]
        control.disconnect(other.node_id, seconds=60)
        await until(lambda: control.requests[LIST] > count + 2)
    first, changed = changes[0][1], changes[2][1]
    assert (first and first.tags, changed and changed.tags) == (("tag:k8s",), ("tag:other",))
    assert [(old, new and new.node_id) for old, new in changes[:2]] == [(None, device.node_id), (None, other.node_id)]
    assert changes[2:] == [(first, changed), (changed, None)]


async def test_listeners_are_told_what_is_put_and_dropped(control: Control, client: TailnetClient) -> None:
    changes: list[tuple[Listed | None, Listed | None]] = []
    device = join(control)
    devices = Devices(client)
    await devices.refresh()
    old = devices.known(device.node_id)
    assert old is not None
    new = replace(old, tags=("tag:other",))
    devices.listen(lambda old, new: changes.append((old, new)))
    devices.put(new)
    devices.put(replace(new, hostname="other"))
    devices.drop(device.node_id)
    devices.drop(device.node_id)
    assert changes == [(old, new), (replace(new, hostname="other"), None)]


async def test_what_is_put_or_dropped_while_a_list_is_read_is_newer_than_the_list(
    control: Control, client: TailnetClient
) -> None:
    devices = Devices(client, Pace(first=0))
    first, second, third = (join(control, name) for name in ("db", "web", "api"))
    await devices.refresh()
    put = devices.known(second.node_id)
    assert put is not None

    def write(_: Listed | None, new: Listed | None) -> None:
        if new and new.node_id == first.node_id:
            devices.put(replace(put, tags=("tag:put",)))
            devices.drop(third.node_id)

    devices.listen(write)
    for each in (first, second, third):
        control.update(replace(each, tags=("tag:listed",)))
    for tags in (("tag:listed",), ("tag:put",), None), (("tag:listed",),) * 3:
        await devices.refresh()
        found = [devices.known(each.node_id) for each in (first, second, third)]
        assert tuple(each and each.tags for each in found) == tags


async def test_other_tasks_run_while_many_devices_change(
    control: Control, client: TailnetClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeslice, "SECONDS", 0)
    turn = 0

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    turns: set[int] = set()
    devices = Devices(client)
    devices.listen(lambda old, new: turns.add(turn))
    for _ in range(20):
        join(control)
    async with running(count()):
        await devices.refresh()
    assert len(turns) == 20


async def test_what_has_gone_is_remembered_until_somebody_has_its_name(control: Control, client: TailnetClient) -> None:
    devices = Devices(client, Pace(first=0))
    device = join(control)
    await devices.refresh()
    assert devices.departed("db.tail.example.org") is None
    control.delete_device(device)
    await devices.refresh()
    gone = devices.departed("db.tail.example.org")
    assert gone is not None
    assert (gone.node_id, devices.at("db"), devices.known(device.node_id)) == (device.node_id, None, None)
    join(control)
    await devices.refresh()
    assert devices.departed("db.tail.example.org") is None
    assert devices.departed(device.addresses[0]) is not None


async def test_a_name_that_moves_to_another_device_is_that_devices(control: Control, client: TailnetClient) -> None:
    devices = Devices(client, Pace(first=0))
    new, old = join(control, "web"), join(control)
    await devices.refresh()
    control.rename_device(old, "old")
    control.rename_device(new, "db")
    await devices.refresh()
    assert [devices.at(name) for name in ("old", "db")] == [devices.known(old.node_id), devices.known(new.node_id)]
    assert devices.departed("db") is None


async def test_a_name_that_two_devices_claim_stays_with_the_one_that_stays(
    control: Control, client: TailnetClient
) -> None:
    one, other = ({"id": number, "name": "db.tail.example.org"} for number in ("1", "2"))
    devices = Devices(client, Pace(first=0))
    for listed in [one], [one, other], [one]:
        control.answer(json.dumps({"devices": listed}), path=LIST[1])
        await devices.refresh()
        assert devices.at("db") is devices.known(listed[-1]["id"]) is not None
    assert devices.departed("db") is None


async def test_only_so_much_of_what_has_gone_is_remembered(
    control: Control, client: TailnetClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEPARTED", 1)
    devices = Devices(client, Pace(first=0))
    gone = [join(control, name) for name in ("db", "web")]
    await devices.refresh()
    for device in gone:
        control.delete_device(device)
    await devices.refresh()
    names = [name for device in gone for name in (device.hostname, *device.addresses)]
    assert sum(devices.departed(name) is not None for name in names) <= 1


async def test_a_list_that_is_seconds_old_is_not_read_again(control: Control, client: TailnetClient) -> None:
    devices = Devices(client, Pace(first=3600))
    await asyncio.gather(*(devices.refresh() for _ in range(5)))
    assert control.requests[LIST] == 1


async def test_a_missing_scope_is_asked_about_seldom(control: Control, client: TailnetClient) -> None:
    control.scopes = {"auth_keys"}
    devices = Devices(client, Pace(longest=0))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await devices.refresh()
    assert control.requests[LIST] == 1


async def test_a_missing_scope_is_said_once(
    control: Control, client: TailnetClient, caplog: pytest.LogCaptureFixture
) -> None:
    control.scopes = {"auth_keys"}
    devices = Devices(client, Pace(denied=0))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await devices.refresh()
    [record] = [record for record in caplog.records if record.name == "tsoperator.devices"]
    assert "devices:core" in record.getMessage()


@pytest.mark.parametrize("status", [403, 500])
async def test_a_failure_passes(control: Control, client: TailnetClient, status: int) -> None:
    control.fail(status, count=2, path=LIST[1])
    device = join(control)
    devices = Devices(client, replace(QUICK, interval=3600))
    async with running(devices.follow()):
        assert devices.get(device.node_id) is None
        await until(lambda: devices.known(device.node_id) is not None)


async def test_a_failure_is_forgotten_after_a_good_read(control: Control, client: TailnetClient) -> None:
    control.fail(500, path=LIST[1])
    devices = Devices(client, Pace(first=3600, longest=0))
    with pytest.raises(Unavailable):
        await devices.refresh()
    await devices.refresh()
    await devices.refresh()
    assert control.requests[LIST] == 2


async def test_a_control_server_that_is_away_is_not_asked_by_everybody(control: Control, client: TailnetClient) -> None:
    control.fail(500, count=9, path=LIST[1])
    devices = Devices(client)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await devices.refresh()
    assert control.requests[LIST] == 1
