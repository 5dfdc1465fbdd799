"""Tailnets: the view that a parent has of its devices, the announced changes, and the choice among several tailnets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import NamedTuple

import pytest
from clustersim.control import Control
from clustersim.sim import ClusterSim
from clustersim.tailnet import Device
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.device import Device as Known
from tsoperator.api.objects import DEVICE, SUFFIXES, TAILSCALE_SERVICE, Key, Object, key_of
from tsoperator.api.owners import joined as joined_by
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.devices import TAGS, Destination, TailnetView
from tsoperator.proxy.login import Login
from tsoperator.proxy.replica import Replica
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteDevice, DeleteService, PutService, SetTags
from tsoperator.runtime.result import Pending
from tsoperator.sources import sources
from tsoperator.tailnet.calls import NotAsked
from tsoperator.tailnet.devices import ListPace
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.tailnet import OWN, Tailnets, UnknownTailnet, device_object

from tests.support.cluster import until
from tests.support.objects import FQDN, OPERATOR_NAMESPACE, settings
from tests.support.tailnets import join, running_tailnets, tailnet_client, tailnet_of

OWNER = Owner("svc", Key("default", "db"))
QUICK = ListPace(first=0.01, longest=0.01, interval=0.01)


@pytest.fixture
async def tailnets(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Tailnets]:
    cache = Cache(sources(OPERATOR_NAMESPACE))
    async with (
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings(), QUICK) as made,
    ):
        yield made


async def joined(sim: ClusterSim, tailnets: Tailnets, hostname: str = "db") -> Device:
    """Let a device join, and wait until the list has it."""
    device = join(sim.control, hostname)
    await until(lambda: device.node_id in view(tailnets, device.node_id).devices)
    return device


def view(tailnets: Tailnets, *ids: str, destination: str = "") -> TailnetView:
    return tailnets.at(OWN).view(OWNER, ids, destination)


async def test_the_view_for_a_parent_has_the_devices_of_the_parent_that_are_in_the_list(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    device = await joined(sim, tailnets)
    seen = view(tailnets, device.node_id, "n000009CNTRL")
    assert seen == TailnetView(OWN, sim.control_url, {device.node_id: seen.devices[device.node_id]})
    assert seen.devices[device.node_id].name == FQDN


async def test_a_view_says_whether_the_list_of_devices_has_been_read(sim: ClusterSim, tailnets: Tailnets) -> None:
    assert not view(tailnets).is_listed
    await joined(sim, tailnets)
    assert view(tailnets).is_listed


async def test_a_parents_view_has_its_failures_and_each_of_its_news_once(sim: ClusterSim, tailnets: Tailnets) -> None:
    device, seen = await joined(sim, tailnets), list[TailnetView]()
    step = SetTags(OWN, OWNER, device.node_id, ("tag:a",))
    sim.control.fail(400, path="/tags")
    for _ in range(2):
        told = asyncio.Event()
        tailnets.listen(DEVICE, lambda *_, told=told: told.set())
        await tailnets.carry_out(step)
        await told.wait()
        seen.append(view(tailnets))
        tailnets.news_told(OWNER)
        seen.append(view(tailnets))
    assert [list(each.failures) for each in seen] == [[(device.node_id, TAGS)]] * 2 + [[]] * 2
    assert [[news.reason for news in each.news] for each in seen] == [[], [], ["TagsChanged"], []]


RENAMED, READDRESSED = {"name": "orders.tail1234.ts.net"}, {"addresses": ("100.64.0.99",)}
MOVES: dict[str, tuple[str, Object | None, str]] = {
    "there": ("DB.tail1234.ts.net.", {}, "has a device"),
    "gone": ("DB.tail1234.ts.net.", None, ""),
    "address gone": ("100.64.0.1", None, ""),
    "IPv6 address gone": ("FD7A:115C:A1E0:0::1", None, ""),
    "renamed": (FQDN, RENAMED, "has moved"),
    "renamed, by its address": ("100.64.0.1", RENAMED, "has a device"),
    "readdressed": ("100.64.0.1", READDRESSED, "has moved"),
    "readdressed, by its name": (FQDN, READDRESSED, "has a device"),
}


@pytest.mark.parametrize(("destination", "becomes", "now"), MOVES.values(), ids=MOVES)
async def test_the_view_of_a_destination_has_its_device_or_the_device_that_had_the_name_or_address_before(
    sim: ClusterSim, tailnets: Tailnets, destination: str, becomes: Object | None, now: str
) -> None:
    device = await joined(sim, tailnets)
    before = view(tailnets, device.node_id).devices[device.node_id]
    sim.control.delete_device(device)
    if becomes is not None:
        sim.control.update(replace(device, **becomes))
    await joined(sim, tailnets, "later")
    there = view(tailnets, device.node_id).devices.get(device.node_id)
    has_device, has_moved = now == "has a device", now == "has moved"
    departed, moved = None if has_device else before, there if has_moved else None
    wanted = Destination(destination, there if has_device else None, departed, moved)
    assert view(tailnets, destination=destination).destination == wanted


async def test_a_view_has_the_holder_of_the_name_if_a_device_got_a_name_with_a_number(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    first, second, other = [await joined(sim, tailnets, name) for name in ("web", "web", "Db")]
    seen = view(tailnets, first.node_id, second.node_id, other.node_id)
    assert {node_id: holder.device.node_id for node_id, holder in seen.holders.items()} == {
        second.node_id: first.node_id
    }
    sim.control.delete_device(first)
    await joined(sim, tailnets, "later")
    assert view(tailnets, second.node_id).holders == {}


async def test_a_new_replica_gets_the_same_auth_key_until_its_parent_is_forgotten(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    key = Key(OPERATOR_NAMESPACE, "ts-db-0")
    login = Login(OWNER, "uid", [Replica(0, key, key, "db", ("tag:k8s",))], frozenset({0}), {})
    first = await tailnets.at(OWN).auth_keys(login)
    assert await tailnets.at(OWN).auth_keys(login) == first
    tailnets.forget(OWNER)
    second = await tailnets.at(OWN).auth_keys(login)
    assert [each.key for each in sim.control.keys.values()] == [first.by_ordinal[0], second.by_ordinal[0]]


async def test_a_parent_loses_its_failures_and_its_pending_calls_when_it_is_forgotten(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    device = await joined(sim, tailnets)
    sim.control.fail(400, path="/tags")
    await tailnets.carry_out(SetTags(OWN, OWNER, device.node_id, ("tag:a",)))
    await until(lambda: view(tailnets).failures)
    sim.control.latency = 3600
    with pytest.raises(Pending) as raised:
        await tailnets.carry_out(DeleteDevice(OWN, OWNER, "n9"))
    tailnets.forget(OWNER)
    assert raised.value.until.cancelled()
    assert not view(tailnets).failures


async def test_a_change_of_a_device_is_announced_as_the_change_of_an_object(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    changes: list[tuple[Object | None, Object | None]] = []
    tailnets.listen(DEVICE, lambda old, new: changes.append((old, new)))
    tailnets.listen(SUFFIXES, lambda old, new: pytest.fail(f"no device: {old} {new}"))
    device = await joined(sim, tailnets)
    known = view(tailnets, device.node_id).devices[device.node_id]
    sim.control.delete_device(device)
    await until(lambda: len(changes) == 2)
    seen = device_object(OWN, known)
    assert changes == [(None, seen), (seen, None)]
    assert tailnets.all(DEVICE) == []


def test_the_object_of_a_device_has_the_names_by_which_it_is_found() -> None:
    device = Known("n1", "DB.tail1234.ts.net", addresses=("100.64.0.9", "FD7A:115C:A1E0:0::9"))
    assert device_object("lab", device) == {
        "kind": "Device",
        "metadata": {"namespace": "lab", "name": "n1"},
        "aliases": ["100.64.0.9", "db", "db.tail1234.ts.net", "fd7a:115c:a1e0::9"],
    }


LAB = "lab"


class Lab(NamedTuple):
    """The registered tailnets, and another tailnet that can be registered, with its control server.

    *existing* has the names of the Tailnets that exist in the cluster.
    """

    tailnets: Tailnets
    control: Control
    other: KnownTailnet
    existing: set[str]


@pytest.fixture
async def lab(sim: ClusterSim, client: KubeClient) -> AsyncIterator[Lab]:
    """Yield the operator's own tailnet, which runs, and another tailnet that isn't registered."""
    cache, control, existing = Cache(sources(OPERATOR_NAMESPACE)), Control("tail5678.ts.net", first=100), {LAB}
    async with (
        control.serve() as url,
        tailnet_client(sim.control, sim.control_url) as own,
        tailnet_client(control, url) as other,
        running_tailnets(own, client, cache, settings(), QUICK, existing.__contains__, lambda: existing) as tailnets,
    ):
        yield Lab(tailnets, control, tailnet_of(other, client, cache, settings(), LAB, QUICK), existing)


async def test_the_devices_of_a_tailnet_are_followed_from_the_registration_of_the_tailnet_to_its_end(lab: Lab) -> None:
    changes: list[Object | None] = []
    lab.tailnets.listen(DEVICE, lambda _, new: changes.append(new))
    lab.tailnets.register(lab.other)
    first = join(lab.control).node_id
    await until(lambda: lab.tailnets.at(LAB).view(OWNER, [first]).devices)
    assert [key_of(each) for each in changes if each] == [Key(LAB, first)]
    lab.tailnets.unregister(LAB)
    reads = lab.control.requests.total()
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "tailnet lab"])
    assert lab.control.requests.total() <= reads + 2  # a list and a check of the setup may have been under way
    assert lab.tailnets.registered(LAB) is None


async def test_nobody_waits_any_longer_for_a_call_to_a_tailnet_whose_registration_has_ended(lab: Lab) -> None:
    lab.tailnets.register(lab.other)
    lab.control.latency = 3600
    with pytest.raises(Pending) as raised:
        await lab.tailnets.carry_out(DeleteDevice(LAB, OWNER, "n9"))
    lab.tailnets.unregister(LAB)
    await until(raised.value.until.cancelled)


@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "unregistered"])
async def test_a_tailnet_whose_registration_has_ended_makes_no_calls(
    client: KubeClient, lab: Lab, is_replaced: bool
) -> None:
    lab.tailnets.register(lab.other)
    if is_replaced:
        lab.tailnets.register(tailnet_of(lab.other.client, client, Cache([]), settings(), LAB, QUICK))
    else:
        lab.tailnets.unregister(LAB)
    key = Key(OPERATOR_NAMESPACE, "ts-db-0")
    login = Login(OWNER, "uid", [Replica(0, key, key, "db", ("tag:k8s",))], frozenset({0}), {}, is_new=True)
    assert isinstance((await lab.other.auth_keys(login)).pending, NotAsked)
    with pytest.raises(NotAsked):
        await lab.other.carry_out(DeleteDevice(LAB, OWNER, "n9"))
    assert not lab.control.keys


async def test_a_newly_registered_tailnet_replaces_a_tailnet_of_the_same_name(client: KubeClient, lab: Lab) -> None:
    lab.tailnets.register(lab.other)
    twin = tailnet_of(lab.other.client, client, Cache([]), settings(), LAB, QUICK)
    lab.tailnets.register(twin)
    await until(lambda: [task.get_name() for task in asyncio.all_tasks()].count("tailnet lab") == 1)
    assert lab.tailnets.at(LAB) is twin


async def test_an_error_while_the_operators_own_tailnet_is_followed_is_raised(
    sim: ClusterSim, client: KubeClient
) -> None:
    async with tailnet_client(sim.control, sim.control_url) as opened:
        own = tailnet_of(opened, client, Cache([]), settings(), pace=QUICK)

        def fail(*_: object) -> None:
            raise RuntimeError("a listener fails")

        own.devices.listen(fail)
        own.devices.get(join(sim.control).node_id)
        with pytest.RaisesGroup(pytest.RaisesGroup(RuntimeError)):
            await Tailnets([own]).run()


async def test_the_devices_of_a_tailnet_that_fails_are_followed_again_and_the_other_tailnets_go_on(
    sim: ClusterSim, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    failing: list[str] = [LAB]

    def listener(_: Object | None, new: Object | None) -> None:
        if new and key_of(new).namespace in failing:
            raise RuntimeError("a listener fails")

    lab.tailnets.listen(DEVICE, listener)
    lab.tailnets.register(lab.other)
    lab.other.view(OWNER, [join(lab.control).node_id])
    await until(lambda: "Tailnet lab can't be followed" in caplog.text)
    await joined(sim, lab.tailnets)
    failing.clear()
    later = join(lab.control, "later").node_id
    await until(lambda: later in lab.other.view(OWNER, [later]).devices)


def verdict(lab: Lab) -> asyncio.Future[None]:
    """Return the future for which a parent in the other tailnet waits before that tailnet has been checked."""
    with pytest.raises(Pending) as raised:
        lab.tailnets.at(LAB)
    return raised.value.until


async def test_a_parent_of_an_unchecked_tailnet_waits_until_the_tailnet_is_checked_or_unregistered(
    lab: Lab,
) -> None:
    waiting = [verdict(lab), verdict(lab)]
    assert not any(each.done() for each in waiting)
    lab.tailnets.unregister(LAB)
    assert all(each.done() for each in waiting)
    waiting = [verdict(lab), verdict(lab)]  # the Tailnet was created anew
    assert not any(each.done() for each in waiting)
    lab.tailnets.refuse(LAB, "no")
    assert all(each.done() for each in waiting)


async def test_the_operator_can_own_tailscale_services_in_a_tailnet_that_is_registered_or_not_yet_refused(
    lab: Lab,
) -> None:
    assert lab.tailnets.names() == ["", LAB]
    lab.tailnets.refuse(LAB, "no")
    assert lab.tailnets.names() == [""]
    lab.tailnets.register(lab.other)
    assert lab.tailnets.names() == ["", LAB]


async def test_a_refused_tailnet_is_unknown_until_its_registration_and_keeps_its_refusal_after_that(lab: Lab) -> None:
    lab.tailnets.refuse(LAB, "its Secret is empty")
    with pytest.raises(UnknownTailnet, match="Tailnet 'lab' can't be used: its Secret is empty"):
        lab.tailnets.at(LAB)
    lab.tailnets.register(lab.other)
    assert lab.tailnets.at(LAB) is lab.other
    assert lab.tailnets.refusal(LAB) == "Tailnet 'lab' can't be used: its Secret is empty"
    lab.tailnets.refuse(LAB, "")
    assert lab.tailnets.refusal(LAB) == ""


async def test_a_tailnet_without_its_object_is_unknown_even_if_it_is_registered(lab: Lab) -> None:
    lab.existing.clear()
    for _ in range(2):
        with pytest.raises(UnknownTailnet, match="there is no Tailnet 'lab': create it"):
            lab.tailnets.at(LAB)
        with pytest.raises(UnknownTailnet):
            await lab.tailnets.carry_out(SetTags(LAB, OWNER, "n1", ("tag:a",)))
        lab.tailnets.register(lab.other)


DEVICES = {"n7": "db.tail5678.ts.net"}


async def test_devices_count_as_members_of_the_registered_tailnet_at_the_url_where_their_proxies_log_in(
    sim: ClusterSim, lab: Lab
) -> None:
    url, own = lab.other.client.url, sim.control_url
    assert lab.tailnets.home(LAB, "https://gone.example.org", DEVICES) == LAB
    lab.tailnets.register(lab.other)
    assert [lab.tailnets.home(name, url, DEVICES) for name in (OWN, LAB)] == [LAB, LAB]
    assert lab.tailnets.home(LAB, own, DEVICES) == OWN


async def test_devices_count_as_members_of_an_unregistered_tailnet_that_their_parent_names(
    sim: ClusterSim, lab: Lab
) -> None:
    await joined(sim, lab.tailnets)
    assert lab.tailnets.home(LAB, sim.control_url, DEVICES) == LAB


OURS, SAME = Known("n7", "db.tail5678.ts.net"), Known("n8", "X.tail5678.ts.net.")
OTHER, SHARED = Known("n9", "x.tail9999.ts.net"), Known("n8", "x.tail5678.ts.net", external=True)
TABLES: dict[str, tuple[list[Known], list[Known], str]] = {
    "known in the second": ([], [OURS], LAB),
    "known in both": ([OURS], [OURS], LAB),
    "the second has none": ([OURS], [], OWN),
    "the second is the same tailnet": ([OURS], [SAME], LAB),
    "the second is another tailnet": ([OURS], [OTHER], OWN),
    "the first shares a device": ([OURS], [OTHER, SHARED], OWN),
    "gone from both": ([SAME], [OTHER], LAB),
}


@pytest.mark.parametrize(("first", "second", "home"), TABLES.values(), ids=TABLES)
async def test_of_two_tailnets_at_one_url_a_device_counts_as_a_member_of_the_one_that_lists_it(
    sim: ClusterSim, client: KubeClient, lab: Lab, first: list[Known], second: list[Known], home: str
) -> None:
    own = lab.tailnets.at(OWN)
    twin = tailnet_of(own.client, client, Cache([]), settings(), LAB, QUICK)
    lab.tailnets.register(twin)
    await asyncio.gather(own.devices.first_try(), twin.devices.first_try())
    for devices, listed in ((own.devices, first), (twin.devices, second)):
        for device in listed:
            devices.put(device)
    assert lab.tailnets.home(LAB, sim.control_url, DEVICES) == home


async def test_two_tailnets_at_one_url_are_told_apart_only_after_their_device_lists_have_been_read(
    sim: ClusterSim, lab: Lab
) -> None:
    device = together(sim, lab)
    with pytest.raises(Pending) as raised:
        lab.tailnets.home(OWN, sim.control_url, {device.node_id: device.name})
    await raised.value.until
    await until(lambda: not lab.other.devices.is_pending())
    assert lab.tailnets.home(OWN, sim.control_url, {device.node_id: device.name}) == LAB


GATE = Owner("connector", Key("", "gate"))


def together(sim: ClusterSim, lab: Lab) -> Device:
    """Register the other tailnet at the URL of the operator's own tailnet, and return a device of the other tailnet.

    All tailnets of Tailscale have one URL.
    """
    lab.other.client.url = sim.control_url
    lab.tailnets.register(lab.other)
    return join(lab.control, "gate")


def deletion(sim: ClusterSim, device: Device, tailnet: str | None) -> DeleteDevice:
    return DeleteDevice(tailnet, GATE, device.node_id, device.name, sim.control_url)


async def delete(tailnets: Tailnets, step: DeleteDevice, last: asyncio.Future[None] | None = None) -> None:
    """Carry out *step* again after each wait, until no wait is left.

    Raise Pending instead of a wait for the future *last*.
    """
    while True:
        try:
            return await tailnets.carry_out(step)
        except Pending as pending:
            if pending.until is last:
                raise
            await pending.until


@pytest.mark.parametrize("named", [LAB, OWN, None], ids=["named", "named no more", "orphan"])
async def test_a_device_is_deleted_in_the_tailnet_in_which_it_is(sim: ClusterSim, lab: Lab, named: str | None) -> None:
    step = deletion(sim, together(sim, lab), named)
    others = await joined(sim, lab.tailnets)
    await delete(lab.tailnets, step)
    await delete(lab.tailnets, step)  # as after a failed deletion of the device's Secret
    assert (len(lab.control.devices), [*sim.control.devices]) == (0, [others.node_id])


async def test_the_deletion_of_a_device_waits_until_its_tailnet_has_been_checked(sim: ClusterSim, lab: Lab) -> None:
    step = deletion(sim, join(lab.control, "gate"), LAB)
    await lab.tailnets.at(OWN).devices.refresh()
    waiting = verdict(lab)
    with pytest.raises(Pending) as raised:
        await delete(lab.tailnets, step, waiting)
    assert raised.value.until is waiting
    assert sim.control.requests["DELETE", "/api/v2/device/{id}"] == 0


GONE = "is in no tailnet that the operator can ask, so it can't be deleted: create a Tailnet"
BROKEN = "may be in a tailnet that can't be asked: Tailnet 'lab' can't be used: its Secret is empty"
LOST: dict[str, tuple[bool, bool, str, str | None, str]] = {
    "named, and refused": (True, False, "tail5678.ts.net", LAB, "Tailnet 'lab' can't be used: its Secret is empty"),
    "named, and deleted": (False, False, "tail5678.ts.net", LAB, "there is no Tailnet 'lab'"),
    "perhaps in one that is refused": (True, False, "tail5678.ts.net", OWN, BROKEN),
    "certainly in no tailnet": (False, False, "tail5678.ts.net", OWN, GONE),
    "perhaps in none": (False, False, "tail5678.ts.net", None, GONE),
    "gone from the named one": (True, True, "tail5678.ts.net", LAB, ""),
    "gone from the one that has its domain": (True, False, "tail1234.ts.net", OWN, ""),
    "gone from the one that has the domain of an orphan": (True, False, "tail1234.ts.net", None, ""),
}


@pytest.mark.parametrize(("exists", "is_usable", "domain", "named", "words"), LOST.values(), ids=LOST)
async def test_a_device_that_no_tailnet_has_counts_as_gone_only_if_a_known_tailnet_certainly_had_it(
    sim: ClusterSim, lab: Lab, exists: bool, is_usable: bool, domain: str, named: str | None, words: str
) -> None:
    await joined(sim, lab.tailnets)
    step = DeleteDevice(named, GATE, "n000099CNTRL", f"gate.{domain}", sim.control_url)
    lab.tailnets.refuse(LAB, "" if is_usable else "its Secret is empty")
    if not exists:
        lab.existing.clear()
    if is_usable:
        lab.control.delete_device(together(sim, lab))
    with pytest.raises(UnknownTailnet, match=words) if words else nullcontext():
        await delete(lab.tailnets, step)


async def test_no_other_tailnet_is_asked_to_delete_a_device_that_is_gone_from_its_own_tailnet(
    sim: ClusterSim, lab: Lab
) -> None:
    device = together(sim, lab)
    join(lab.control, "other")
    lab.control.delete_device(device)
    await delete(lab.tailnets, deletion(sim, device, LAB))
    assert sim.control.requests["DELETE", "/api/v2/device/{id}"] == 0


@pytest.mark.parametrize(("name", "left"), [("gate.tail5678.ts.net", 0), ("other.tail5678.ts.net", 1), ("", 1)])
async def test_a_device_whose_control_server_has_another_url_now_is_known_by_its_id_and_its_name(
    sim: ClusterSim, lab: Lab, name: str, left: int
) -> None:
    lab.tailnets.register(lab.other)
    device = join(lab.control, "gate")
    await until(lambda: lab.other.view(GATE, [device.node_id]).devices)
    with suppress(UnknownTailnet):
        await delete(lab.tailnets, DeleteDevice(LAB, GATE, device.node_id, name, "https://old.example.org"))
    assert len(lab.control.devices) == left


async def test_a_device_that_headscale_does_not_have_is_gone_because_headscale_has_only_one_tailnet(
    sim: ClusterSim, lab: Lab
) -> None:
    lab.tailnets.register(lab.other)
    await delete(lab.tailnets, DeleteDevice(None, GATE, "7", "gate.tail.example.org", lab.other.client.url))
    assert sim.control.requests["DELETE", "/api/v2/device/{id}"] == 0


async def test_each_change_of_a_tailscale_service_is_announced_as_the_change_of_an_object(
    sim: ClusterSim, tailnets: Tailnets
) -> None:
    changes: list[Object | None] = []
    tailnets.listen(TAILSCALE_SERVICE, lambda _, new: changes.append(new))
    sim.control.services.put(Present("svc:web", ("tcp:443",), ("tag:k8s",), joined_by({}, "nUS")))
    seen = await service(tailnets, OWN, "web")
    assert seen is not None
    assert tailnets.owned_services(OWN, "nUS") == {"web"}
    obj = {"kind": "TailscaleService", "metadata": {"namespace": OWN, "name": "web"}}
    assert tailnets.all(TAILSCALE_SERVICE) == [obj]
    assert tailnets.all(DEVICE) == []
    changes.clear()
    await tailnets.carry_out(PutService(OWN, OWNER, replace(seen, ports=("tcp:80",)), seen))
    assert changes == [obj]
    assert sim.control.services.present["svc:web"].ports == ("tcp:80",)
    changed = await service(tailnets, OWN, "web")
    assert changed is not None
    await tailnets.carry_out(DeleteService(OWN, OWNER, changed))
    assert not sim.control.services.present


async def test_the_view_of_a_tailscale_service_in_an_unknown_tailnet_says_why_it_is_not_shown(lab: Lab) -> None:
    pending = lab.tailnets.service(LAB, "web").pending
    assert isinstance(pending, Pending)
    lab.tailnets.refuse(LAB, "bad credentials")
    assert pending.until.done()
    refusals = [lab.tailnets.service(name, "web").refusal for name in (LAB, "none")]
    assert ["bad credentials" in refusals[0].message, "no Tailnet 'none'" in refusals[1].message] == [True, True]  # type: ignore[union-attr]  # there are refusals
    assert lab.tailnets.owned_services("none", "nUS") == frozenset()
    lab.tailnets.service_settled("none", "web")


async def test_the_tailscale_services_of_a_tailnet_are_read_again_when_the_tailnet_is_registered_again(
    client: KubeClient, lab: Lab
) -> None:
    lab.control.services.put(Present("svc:web"))
    lab.tailnets.register(lab.other)
    assert await service(lab.tailnets, LAB, "web")
    changes: list[Object | None] = []
    lab.tailnets.listen(TAILSCALE_SERVICE, lambda _, new: changes.append(new))
    lab.tailnets.register(tailnet_of(lab.other.client, client, Cache([]), settings(), LAB, QUICK))
    assert [key_of(each) for each in changes if each] == [Key(LAB, "web")]
    changes.clear()
    assert await service(lab.tailnets, LAB, "web")
    assert {key_of(each) for each in changes if each} == {Key(LAB, "web")}


async def test_the_scope_for_tailscale_services_is_checked_in_the_tailnets_that_need_the_scope(lab: Lab) -> None:
    own = lab.tailnets.at(OWN)
    lab.tailnets.check_services_while(lambda name: name == LAB)
    lab.tailnets.register(lab.other)
    assert [each.preflight.needs_services() for each in (own, lab.other)] == [False, True]
    lab.tailnets.check_services_while(lambda name: name == OWN)
    assert [each.preflight.needs_services() for each in (own, lab.other)] == [True, False]


async def service(tailnets: Tailnets, name: str, label: str) -> TailscaleService | None:
    """Return the Tailscale Service with this *label* in the tailnet called *name*. Wait until it has been read."""
    while isinstance(pending := (seen := tailnets.service(name, label)).pending, Pending):
        await pending.until
    assert seen.is_shown
    return seen.service
