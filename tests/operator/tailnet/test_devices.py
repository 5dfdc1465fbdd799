import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from clustersim.control import Control
from clustersim.tailnet import Device
from tsoperator.api.device import Device as Known
from tsoperator.tailnet.devices import DEPARTED, DeviceNames, Devices, ListPace
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import Forbidden, Unavailable
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running, until
from tests.support.tailnets import join, tailnet_client

LIST = ("GET", "/api/v2/tailnet/-/devices")
QUICK = ListPace(first=0.01, longest=0.02, interval=0.02, denied=0.02)
WHEN_ASKED = ListPace(first=0.01, longest=0.02, interval=3600)


@pytest.fixture
def control(request: pytest.FixtureRequest) -> Control:
    return Control("tail.example.org", headscale=getattr(request, "param", False))


both_servers = pytest.mark.parametrize("control", [False, True], ids=["tailscale", "headscale"], indirect=True)


@pytest.fixture
async def client(control: Control) -> AsyncIterator[TailnetClient]:
    async with control.serve() as url, tailnet_client(control, url, Retry(tries=1)) as opened:
        yield opened


def told(devices: Devices) -> list[str]:
    """Return a list to which each change of a device is added from now on."""
    changes: list[str] = []
    devices.listen(lambda *both: changes.append(" -> ".join(map(shown, both))))
    return changes


def shown(device: Known | None) -> str:
    return f"{device.short_name} {', '.join(device.tags)}" if device else "None"


def tags(devices: Devices, device: Device) -> tuple[str, ...] | None:
    found = devices.known(device.node_id)
    return found.tags if found else None


@both_servers
async def test_a_device_is_found_by_its_id_name_label_and_addresses(control: Control, client: TailnetClient) -> None:
    device = join(control)
    devices = Devices(client)
    await devices.refresh()
    known = devices.get(device.node_id)
    assert known == devices.known(device.node_id) is not None
    for text in ("DB.tail.example.org", "db.tail.example.org.", "Db", *device.addresses, "FD7A:115C:A1E0:0::1"):
        assert devices.at(text) == known, text
    assert devices.at("other") is None
    # Headscale's list has only the first label of each name, so the rest of the name isn't compared.
    assert devices.at("db.tail9999.ts.net") == (known if control.headscale else None)


async def test_a_shared_device_of_another_tailnet_is_not_found_by_the_first_label_of_its_name(
    control: Control, client: TailnetClient
) -> None:
    shared = {"id": "7", "nodeId": "n7", "name": "db.tail9999.ts.net", "isExternal": True}
    control.answer(json.dumps({"devices": [shared]}), path=LIST[1])
    devices = Devices(client)
    await devices.refresh()
    assert devices.at("db.tail9999.ts.net") is not None
    assert devices.at("db") is None
    assert not devices.has("n7")
    assert devices.names() == DeviceNames(frozenset(), frozenset({"db.tail9999.ts.net"}))


async def test_the_list_of_devices_is_read_only_if_somebody_asks_for_a_device_that_is_not_in_it(
    control: Control, client: TailnetClient
) -> None:
    first = join(control)
    devices, unasked = Devices(client, WHEN_ASKED), Devices(client, QUICK)
    async with running(devices.follow(), unasked.follow()):
        assert devices.get(first.node_id) is None
        await until(lambda: devices.known(first.node_id) is not None)
        second = join(control, "web")
        assert devices.get(second.node_id) is None
        await until(lambda: devices.known(second.node_id) is not None)
        assert devices.get(first.node_id) is not None
        await asyncio.sleep(2 * QUICK.interval)
    assert (control.requests[LIST], unasked.known(first.node_id)) == (2, None)


async def test_the_list_of_devices_is_read_at_its_usual_pace_once_nobody_asks_for_a_missing_device_any_more(
    control: Control, client: TailnetClient
) -> None:
    devices = Devices(client, ListPace(first=0.01, longest=60, interval=0.05))
    async with running(devices.follow()):
        await until(lambda: devices.get("nUnknown") or control.requests[LIST] > 5)
        await until(lambda: control.requests[LIST] > 10, seconds=5)


async def test_a_query_for_a_missing_device_during_a_read_of_the_device_list_causes_a_second_read(
    control: Control, client: TailnetClient
) -> None:
    control.latency = 0.2
    devices = Devices(client, WHEN_ASKED)
    async with running(devices.follow()):
        assert devices.get("nFirst") is None
        await until(lambda: control.requests[LIST] == 1)
        assert devices.get("nSecond") is None
        await until(lambda: control.requests[LIST] == 2, seconds=5)


async def test_the_device_list_is_read_again_if_somebody_asks_for_a_device_that_waits_for_approval(
    control: Control, client: TailnetClient
) -> None:
    device = join(control)
    control.update(replace(device, authorized=False))
    devices = Devices(client, WHEN_ASKED)
    await devices.refresh()
    control.update(replace(device, authorized=True))
    async with running(devices.follow()):
        assert devices.get(device.node_id) is not None
        await until(lambda: devices.known(device.node_id).authorized)  # type: ignore[union-attr]  # it is known


@both_servers
async def test_listeners_hear_of_changes_of_devices_that_concern_parents_and_of_no_other_changes(
    control: Control, client: TailnetClient
) -> None:
    device, other = join(control), join(control, "web")
    devices = Devices(client, QUICK)
    changes = told(devices)
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
    assert changes == [
        "None -> db tag:k8s", "None -> web tag:k8s", "db tag:k8s -> db tag:other", "db tag:other -> None",
    ]  # fmt: skip


async def test_listeners_hear_of_the_operators_own_writes_and_of_announced_changes(client: TailnetClient) -> None:
    devices = Devices(client)
    changes = told(devices)
    for tag in ("tag:a", "tag:a", "tag:b"):
        devices.put(Known("n1", "db", tags=(tag,)))
    devices.announce("n1")
    devices.drop("n1")
    devices.announce("n1")
    assert changes == ["None -> db tag:a", "db tag:a -> db tag:b", "db tag:b -> db tag:b", "db tag:b -> None"]


async def test_a_list_of_devices_does_not_undo_changes_that_were_made_while_the_list_was_read(
    control: Control, client: TailnetClient
) -> None:
    tagged, dropped = join(control), join(control, "web")
    devices = Devices(client, ListPace(first=0))
    await devices.refresh()
    control.latency = 0.1
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(devices.refresh())
        await until(lambda: control.requests[LIST] == 2)
        devices.put(Known(tagged.node_id, tagged.name, tags=("tag:new",)))
        devices.drop(dropped.node_id)
    assert (tags(devices, tagged), tags(devices, dropped)) == (("tag:new",), None)
    await devices.refresh()
    assert (tags(devices, tagged), tags(devices, dropped)) == (("tag:k8s",), ("tag:k8s",))


@both_servers
async def test_a_departed_device_is_remembered_until_somebody_has_its_name(
    control: Control, client: TailnetClient
) -> None:
    devices = Devices(client, ListPace(first=0))
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


async def test_a_name_of_several_devices_leads_to_another_one_when_one_of_them_is_deleted(
    client: TailnetClient,
) -> None:
    devices = Devices(client)
    for node_id in ("n1", "n2", "n3"):
        devices.put(Known(node_id, "db.tail1234.ts.net"))
    for gone, found in (("n2", "n3"), ("n3", "n1")):
        devices.drop(gone)
        assert devices.at("db") == devices.known(found) is not None
        assert devices.departed("db") is None
    devices.drop("n1")
    assert devices.at("db") is None
    assert devices.departed("db") == Known("n1", "db.tail1234.ts.net")


@both_servers
async def test_a_name_that_moves_to_another_device_leads_to_that_device(
    control: Control, client: TailnetClient
) -> None:
    devices = Devices(client, ListPace(first=0))
    new, old = join(control, "web"), join(control)
    await devices.refresh()
    control.rename_device(old, "old")
    control.rename_device(new, "db")
    await devices.refresh()
    assert [devices.at(name) for name in ("old", "db")] == [devices.known(old.node_id), devices.known(new.node_id)]
    assert devices.departed("db") is None


async def test_a_limited_number_of_departed_devices_is_remembered(client: TailnetClient) -> None:
    devices = Devices(client)
    names = [f"web-{number}" for number in range(DEPARTED + 1)]
    for name in names:
        devices.put(Known(name, name))
        devices.drop(name)
    assert [name for name in names if devices.departed(name) is None] == names[:1]


@pytest.mark.parametrize(
    ("status", "pace", "end"),
    [
        (0, ListPace(first=3600), type(None)),
        (403, ListPace(longest=0), Forbidden),
        (500, ListPace(), Unavailable),
    ],
    ids=["seconds old", "denied", "away"],
)
async def test_a_refresh_right_after_a_read_of_the_list_of_devices_has_the_same_result_without_another_read(
    control: Control, client: TailnetClient, status: int, pace: ListPace, end: type[object]
) -> None:
    if status:
        control.fail(status, count=9, path=LIST[1])
    devices = Devices(client, pace)
    ends = await asyncio.gather(*(devices.refresh() for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in ends] == [end] * 5
    assert control.requests[LIST] == 1


@pytest.mark.virtual_time
async def test_the_list_of_devices_is_read_less_and_less_often_while_somebody_asks_for_a_missing_device(
    control: Control,
) -> None:
    loop, times = asyncio.get_running_loop(), list[float]()

    async def look(reads: int) -> float:
        """Ask for a missing device until the list was read *reads* times.

        Return the seconds from the first to the last read.
        """
        times.clear()
        await until(lambda: devices.get("n9") is None and len(times) >= reads)
        return times[reads - 1] - times[0]

    def note() -> None:
        times.append(loop.time())

    async with control.serve() as url, tailnet_client(control, url, Retry(tries=1), note) as client:
        devices = Devices(client, ListPace(first=0.02, longest=100, interval=0.01))
        await devices.refresh()  # gets the access token here, so that this answer isn't among the noted times
        async with running(devices.follow()):
            assert await look(5) >= 0.9 * (0.02 + 0.04 + 0.08 + 0.16)  # the jitter takes a tenth at most
            read = control.requests[LIST]
            await until(lambda: control.requests[LIST] > read + 1)
            assert await look(2) < 0.9


@pytest.mark.parametrize(
    ("status", "pace"), [(403, ListPace(first=3600, denied=0)), (500, ListPace(first=3600, longest=0))]
)
async def test_a_failure_to_list_the_devices_is_logged_once_and_the_end_of_the_failure_is_logged_once(
    control: Control, client: TailnetClient, caplog: pytest.LogCaptureFixture, status: int, pace: ListPace
) -> None:
    caplog.set_level("INFO", "tsoperator.tailnet.devices")
    control.fail(status, count=2, path=LIST[1])
    devices = Devices(client, pace)
    ends = [(await asyncio.gather(devices.refresh(), return_exceptions=True))[0] for _ in range(4)]
    assert [end is None for end in ends] == [False, False, True, True]
    assert control.requests[LIST] == 3
    begun, ended = caplog.messages
    assert ("are left as they are without the scope devices:core" in begun) is (status == 403)
    assert ended == "the tailnet's devices can be listed again"


@pytest.mark.parametrize("status", [403, 500])
async def test_the_list_of_devices_is_read_again_after_a_failed_read(
    control: Control, client: TailnetClient, status: int
) -> None:
    control.fail(status, count=2, path=LIST[1])
    device = join(control)
    devices = Devices(client, replace(QUICK, interval=3600))
    async with running(devices.follow()):
        assert devices.get(device.node_id) is None
        await until(lambda: devices.known(device.node_id) is not None)


async def test_a_retry_reads_at_once_a_list_of_devices_that_was_forbidden_before(
    control: Control, client: TailnetClient
) -> None:
    control.fail(403, path=LIST[1])
    device = join(control)
    devices = Devices(client)
    async with running(devices.follow()):
        await devices.first_try()
        devices.retry()
        await until(lambda: devices.known(device.node_id) is not None)
        devices.retry()
    assert (control.requests[LIST], ListPace().denied) == (2, 300)
    control.fail(403, path=LIST[1])
    devices = Devices(client)
    with pytest.raises(Forbidden):
        await devices.refresh()
    devices.retry()
    await devices.refresh()


async def test_other_tasks_run_while_many_devices_change(control: Control, client: TailnetClient) -> None:
    turn = 0

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    turns: set[int] = set()
    devices = Devices(client, time_slice=0)
    devices.listen(lambda old, new: turns.add(turn))
    for _ in range(20):
        join(control)
    async with running(count()):
        await devices.refresh()
    assert len(turns) == 20
