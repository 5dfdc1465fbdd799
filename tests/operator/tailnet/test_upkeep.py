"""The steps that change devices of proxies: their effects and refusals, and the failures and news that follow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.control import Control
from clustersim.sim import ClusterSim
from clustersim.tailnet import Device
from tsoperator.api.objects import SECRET, Key
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Selection
from tsoperator.proxy.devices import NAME, TAGS, Failed
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.secret import BY_DEVICE, by_device, slim
from tsoperator.runtime.cache import Cache, Source
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteDevice, ForgetFailure, FreeName, SetTags, TakeName
from tsoperator.runtime.result import Pending
from tsoperator.sources import sources
from tsoperator.tailnet.calls import Calls
from tsoperator.tailnet.devices import Devices, ListPace
from tsoperator.tailnet.upkeep import DeviceUpkeep
from tsoperator.tsclient.errors import Forbidden, Unavailable
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running, until
from tests.support.objects import FQDN, OPERATOR_NAMESPACE, whole_secret
from tests.support.tailnets import join, tailnet_client

OWNER, OTHER = Owner("svc", Key("default", "db")), Owner("svc", Key("default", "other"))
SET_TAGS = ("POST", "/api/v2/device/{id}/tags")
SET_NAME = ("POST", "/api/v2/device/{id}/name")
DEVICE = "/api/v2/device/{id}"


@dataclass
class Tailnet:
    """A tailnet with the upkeep of its devices. *told* has the IDs of the devices whose changes were announced."""

    control: Control
    devices: Devices
    upkeep: DeviceUpkeep
    told: list[str] = field(default_factory=list)

    async def join(self, hostname: str = "db", *, offline: float | None = None) -> Device:
        """Let a device join that was last seen *offline* seconds ago, and read the list of devices again."""
        device = join(self.control, hostname)
        if offline is not None:
            self.control.disconnect(device.node_id, offline)
        await self.devices.refresh()
        return device

    async def change(self, step: SetTags | TakeName) -> None:
        """Carry out *step*, and wait until a change of its device is announced.

        In the operator, this announcement causes another reconcile of the parent.
        """
        before = self.told.count(step.device)
        await self.upkeep.carry_out(step)
        await until(lambda: self.told.count(step.device) > before)

    @property
    def failures(self) -> dict[tuple[str, str], Failed]:
        return self.upkeep.failures(OWNER)

    def tell(self, owner: Owner = OWNER) -> list[DeviceFinding]:
        """Return the news of *owner*, and mark the news as reported."""
        news = [*self.upkeep.news(owner)]
        self.upkeep.news_told(owner)
        return news

    def news(self) -> list[tuple[Effect, str]]:
        return [(each.effect, each.reason) for each in self.tell()]


@asynccontextmanager
async def upkeep_in(
    control: Control, url: str, cache: Cache | None = None, calls: Calls | None = None
) -> AsyncIterator[Tailnet]:
    calls = calls or Calls(patience=30)
    async with tailnet_client(control, url, Retry(tries=1)) as client, running(calls.run()):
        devices = Devices(client, ListPace(first=0, longest=0, denied=0))
        upkeep = DeviceUpkeep(client, devices, calls, cache or Cache(sources(OPERATOR_NAMESPACE)))
        tailnet = Tailnet(control, devices, upkeep)
        devices.listen(lambda old, new: tailnet.told.extend(each.node_id for each in (old or new,) if each))
        yield tailnet


@pytest.fixture
async def tailnet() -> AsyncIterator[Tailnet]:
    control = Control()
    async with control.serve() as url, upkeep_in(control, url) as made:
        yield made


def set_tags(device: Device, *tags: str) -> SetTags:
    return SetTags("", OWNER, device.node_id, tags or ("tag:a",))


def take_name(device: Device) -> TakeName:
    return TakeName("", OWNER, device.node_id, "db", ("tag:k8s",))


FREE_NAME = FreeName("", OWNER, "db", ("tag:k8s",))


async def test_the_tags_of_a_device_are_set_and_reported_once(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    await tailnet.change(set_tags(device, "tag:b", "tag:a"))
    known = tailnet.devices.known(device.node_id)
    assert tailnet.control.devices[device.node_id].tags == ("tag:b", "tag:a") == (known and known.tags)
    [news] = tailnet.tell()
    assert (news.effect, news.reason) == (Effect.NEWS, "TagsChanged")
    assert news.message == f"device {FQDN} has the tags tag:a, tag:b now, and had tag:k8s"
    assert (tailnet.news(), tailnet.failures) == ([], {})


@pytest.mark.parametrize(("status", "seconds"), [(400, 300), (403, 300), (500, 30), (429, 30)], ids=str)
async def test_each_failed_change_of_a_device_is_a_finding_and_has_the_time_of_the_next_try(
    tailnet: Tailnet, status: int, seconds: float
) -> None:
    device = await tailnet.join()
    tailnet.control.fail(status, count=2, path="/tags")
    for number in (1, 2):
        await tailnet.change(set_tags(device))
        failed = tailnet.failures[device.node_id, TAGS]
        finding = failed.finding
        assert (failed.wanted, finding.effect, finding.reason) == (("tag:a",), Effect.FAILED, "TagsRefused")
        assert "keeps the tags tag:k8s: it could not be given tag:a: " in finding.message
        assert seconds - 10 < failed.seconds <= seconds
        assert (tailnet.control.requests[SET_TAGS], tailnet.news()) == (number, [])


async def test_when_the_settings_of_the_tailnet_change_a_refused_change_of_a_device_is_due_again_at_once(
    tailnet: Tailnet,
) -> None:
    device = await tailnet.join()
    tailnet.control.fail(403, path="/tags")
    await tailnet.change(set_tags(device))
    told = tailnet.told.count(device.node_id)
    tailnet.upkeep.retry()
    assert tailnet.failures[device.node_id, TAGS].seconds <= 0
    assert tailnet.told.count(device.node_id) == told + 1


async def test_a_failure_ends_with_a_success_or_when_its_change_is_no_longer_wanted(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    tailnet.control.fail(400, path="/tags")
    await tailnet.change(set_tags(device))
    await tailnet.change(set_tags(device, "tag:b"))
    assert (tailnet.failures, tailnet.news()) == ({}, [(Effect.NEWS, "TagsChanged")])
    tailnet.control.fail(400, path="/tags")
    await tailnet.change(set_tags(device))
    await tailnet.upkeep.carry_out(ForgetFailure("", OWNER, device.node_id, TAGS))
    assert tailnet.failures == {}


async def test_an_owner_has_its_own_failures_and_news_until_it_is_forgotten(tailnet: Tailnet) -> None:
    first, second = await tailnet.join(), await tailnet.join("web")
    tailnet.control.fail(400, path="/tags")
    await tailnet.change(set_tags(first))
    await tailnet.change(set_tags(second))
    assert (tailnet.upkeep.failures(OTHER), tailnet.tell(OTHER)) == ({}, [])
    tailnet.upkeep.forget(OTHER)
    assert list(tailnet.failures) == [(first.node_id, TAGS)]
    tailnet.upkeep.forget(OWNER)
    assert (tailnet.failures, tailnet.news()) == ({}, [])


async def test_the_news_of_a_device_stays_until_its_parent_has_reported_it(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    await tailnet.change(set_tags(device))
    shown = tailnet.upkeep.news(OWNER)
    assert tailnet.upkeep.news(OWNER) == shown != []
    await tailnet.change(set_tags(device, "tag:b"))
    for _ in range(2):  # the second call must change nothing, because the parent hasn't seen the newer news
        tailnet.upkeep.news_told(OWNER)
    assert tailnet.news() == [(Effect.NEWS, "TagsChanged")]


async def test_a_control_server_that_hangs_does_not_delay_the_caller() -> None:
    control = Control()
    async with control.serve() as url, upkeep_in(control, url, calls=Calls(patience=0)) as tailnet:
        device, second = await tailnet.join(), await tailnet.join()
        control.latency = 3600
        await tailnet.upkeep.carry_out(set_tags(device))
        await tailnet.upkeep.carry_out(take_name(second))
        for step in (DeleteDevice("", OWNER, device.node_id), FREE_NAME):
            with pytest.raises(Pending):
                await tailnet.upkeep.carry_out(step)


async def test_a_change_of_a_device_fails_if_its_call_is_given_up_before_it_is_made() -> None:
    control = Control()
    async with control.serve() as url, upkeep_in(control, url, calls=Calls(1, patience=30)) as tailnet:
        device = await tailnet.join()
        tailnet.told.clear()
        control.fail(503)
        control.latency = 0.2
        steps: list[DeleteDevice | SetTags] = [DeleteDevice("", OTHER, "n9"), set_tags(device)]
        ends = await asyncio.gather(*map(tailnet.upkeep.carry_out, steps), return_exceptions=True)
        assert ([type(end) for end in ends], tailnet.told) == ([Unavailable, type(None)], [device.node_id])
        assert 20 < tailnet.failures[device.node_id, TAGS].seconds <= 30


async def test_after_a_change_without_an_answer_the_control_server_gets_one_call_at_a_time(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    tailnet.control.fail(503, path="/tags")
    await tailnet.change(set_tags(device))
    tailnet.control.latency = 0.1
    deletions = (tailnet.upkeep.carry_out(DeleteDevice("", owner, "n9")) for owner in (OWNER, OTHER))
    ends = await asyncio.gather(*deletions, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), Unavailable]


async def test_a_change_of_a_device_that_was_deleted_meanwhile_is_no_failure(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    tailnet.control.delete_device(device)
    await tailnet.change(set_tags(device))
    assert (tailnet.failures, tailnet.news()) == ({}, [])


async def test_a_device_stays_in_the_list_until_its_deletion_succeeds(tailnet: Tailnet) -> None:
    device = await tailnet.join()
    deletion = DeleteDevice("", OWNER, device.node_id)
    tailnet.control.fail(403, count=2, path=DEVICE)
    for _ in range(2):
        with pytest.raises(Forbidden):
            await tailnet.upkeep.carry_out(deletion)
        assert tailnet.devices.known(device.node_id)
    for _ in range(2):  # the second time, the device is gone already, which is no error
        await tailnet.upkeep.carry_out(deletion)
        assert (tailnet.devices.known(device.node_id), tailnet.control.devices) == (None, {})
    assert (tailnet.failures, tailnet.news()) == ({}, [])


@pytest.mark.parametrize("hostname", ["db", "DB"])
async def test_a_proxy_takes_its_name_over_from_a_dead_device(tailnet: Tailnet, hostname: str) -> None:
    holder, device = await tailnet.join(offline=600), await tailnet.join()
    await tailnet.change(replace(take_name(device), hostname=hostname))
    assert [each.name for each in tailnet.control.devices.values()] == [FQDN]
    assert tailnet.control.requests[SET_NAME] == 1
    known = tailnet.devices.at("db")
    assert (tailnet.devices.known(holder.node_id), known and known.node_id) == (None, device.node_id)
    [news] = tailnet.tell()
    assert (news.effect, news.reason) == (Effect.NEWS, "NameTakenOver")
    assert news.message == (
        f"device {FQDN} ({holder.node_id}), which was offline, was deleted for its name {hostname}; "
        f"device db-1.tail1234.ts.net has the name {FQDN} now"
    )


async def held(tailnet: Tailnet, step: TakeName, words: str) -> None:
    """Check that *step* leaves a name with the device that holds it. The finding gives the reason in *words*."""
    before = dict(tailnet.control.devices)
    await tailnet.change(step)
    failed = tailnet.failures[step.device, NAME]
    assert (failed.wanted, failed.finding.effect, failed.finding.reason) == ("db", Effect.NOTICE, "NameHeld")
    assert words in failed.finding.message
    assert failed.seconds <= 0 < (failed.finding.requeue_after or 0)
    assert (tailnet.control.devices, tailnet.news()) == (before, [])
    told = len(tailnet.told)
    await tailnet.upkeep.carry_out(step)
    await tailnet.upkeep.carry_out(DeleteDevice("", OTHER, "n9"))  # gives an announcement of *step* the time to arrive
    assert tailnet.told[told:] == []  # an announcement here would reconcile the parent again and again


@pytest.mark.parametrize("offline", [None, 600], ids=["online", "back since the list"])
async def test_a_device_that_is_online_keeps_its_name(tailnet: Tailnet, offline: float | None) -> None:
    holder, device = await tailnet.join(offline=offline), await tailnet.join()
    tailnet.control.set_connected(holder.node_id, connected=True)
    await held(tailnet, take_name(device), "is online")
    known = tailnet.devices.known(holder.node_id)
    assert known is not None
    assert known.connected


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (("tag:k8s",), "has other tags: "),
        (("tag:k8s", "tag:other"), "has other tags: "),
        (("tag:k8s", "tag:db", "tag:other"), "has other tags: "),
        (("tag:k8s", "tag:db"), "is online"),
    ],
    ids=str,
)
async def test_a_device_keeps_its_name_if_it_has_other_tags_or_if_nobody_knows_when_it_was_last_seen(
    tailnet: Tailnet, tags: tuple[str, ...], words: str
) -> None:
    holder, device = await tailnet.join(offline=600), await tailnet.join()
    tailnet.control.update(replace(tailnet.control.devices[holder.node_id], tags=tags))
    await tailnet.devices.refresh()
    known = tailnet.devices.known(holder.node_id)
    assert known is not None
    if words == "is online":
        tailnet.devices.put(replace(known, last_seen=None))
    await held(tailnet, replace(take_name(device), tags=("tag:k8s", "tag:db")), words)


async def test_a_holder_that_was_deleted_since_the_list_was_read_does_not_keep_the_name(tailnet: Tailnet) -> None:
    holder, device = await tailnet.join(offline=600), await tailnet.join()
    tailnet.control.delete_device(tailnet.control.devices[holder.node_id])
    await tailnet.change(take_name(device))
    assert tailnet.control.devices[device.node_id].name == FQDN
    assert tailnet.devices.known(holder.node_id) is None
    [news] = tailnet.tell()
    assert "deleted" not in news.message


async def test_a_device_that_keeps_a_numbered_name_is_renamed_and_a_failed_attempt_is_a_finding(
    tailnet: Tailnet,
) -> None:
    holder, device = await tailnet.join(), await tailnet.join()
    await tailnet.upkeep.carry_out(DeleteDevice("", OTHER, holder.node_id))
    tailnet.control.fail(400, path="/name")
    await tailnet.change(take_name(device))
    failed = tailnet.failures[device.node_id, NAME]
    assert (failed.wanted, failed.finding.effect, failed.finding.reason) == ("db", Effect.NOTICE, "NameNotTakenOver")
    assert failed.finding.message.startswith("device db-1.tail1234.ts.net could not be given the name db: ")
    tailnet.control.answer("{}", path="/name")  # the server accepts the call, but the name keeps its number
    await tailnet.change(take_name(device))
    assert tailnet.control.devices[device.node_id].name == FQDN
    assert tailnet.control.requests[SET_NAME] == 3


async def test_a_name_is_freed_for_a_new_proxy_only_if_its_holder_is_dead(
    tailnet: Tailnet,
) -> None:
    holder = await tailnet.join()
    await tailnet.upkeep.carry_out(FREE_NAME)
    assert (tailnet.news(), tailnet.failures, [*tailnet.control.devices]) == ([], {}, [holder.node_id])
    tailnet.control.disconnect(holder.node_id, 600)
    await tailnet.upkeep.carry_out(FREE_NAME)
    assert (tailnet.control.devices, tailnet.devices.at("db")) == ({}, None)
    assert (tailnet.news(), tailnet.news()) == ([(Effect.NEWS, "NameTakenOver")], [])


async def test_a_name_is_checked_again_if_its_proxy_has_other_tags_than_at_the_first_try() -> None:
    control = Control()
    async with control.serve() as url, upkeep_in(control, url, calls=Calls(patience=0)) as tailnet:
        await tailnet.join(offline=600)
        for tag in ("tag:other", "tag:k8s"):
            with pytest.raises(Pending) as raised:
                await tailnet.upkeep.carry_out(FreeName("", OWNER, "db", (tag,)))
            await raised.value.until
        assert not control.devices


async def test_a_new_proxy_comes_up_even_if_the_list_of_devices_cannot_be_read(tailnet: Tailnet) -> None:
    tailnet.control.scopes = {"auth_keys"}
    await tailnet.upkeep.carry_out(FREE_NAME)
    assert (tailnet.news(), tailnet.news()) == ([(Effect.WARNING, "NameNotTakenOver")], [])


class Counted(dict[str, Any]):
    """A slim Secret that counts how often its data is read."""

    reads = 0

    def __getitem__(self, name: str) -> Any:
        Counted.reads += name == "data"
        return super().__getitem__(name)


async def test_the_name_of_another_proxy_in_the_cluster_is_kept_after_a_check_that_reads_one_secret_only(
    sim: ClusterSim, client: KubeClient
) -> None:
    for number in range(1, 21):  # the holder is the first device
        secret = whole_secret(f"ts-{number}-0", {"device_id": f"n{number:06d}CNTRL"})
        metadata = {"namespace": "tailscale", "name": f"ts-{number}-0", "labels": OTHER.labels}
        sim.store.create(kinds.SECRET, {**secret, "metadata": metadata})
    cache = Cache(
        [Source(Selection(SECRET, OPERATOR_NAMESPACE), {BY_DEVICE: by_device}, lambda secret: Counted(slim(secret)))]
    )
    async with running(cache.follow(client)), upkeep_in(sim.control, sim.control_url, cache) as tailnet:
        await cache.synced()
        device = [await tailnet.join(offline=600) for _ in range(2)][1]
        Counted.reads = 0
        await held(tailnet, take_name(device), "a proxy of Service default/other; to have it, give one")
        assert Counted.reads <= 1
