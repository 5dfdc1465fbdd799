"""The table of Tailscale Services: its reads from the control server, its answers, and the writes of Services."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from clustersim.control import Control
from clustersim.tailnetservices import Host
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.objects import Key
from tsoperator.api.owners import joined, ownership
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteService, PutService
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import Calls, NotAsked
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.services import Services
from tsoperator.tsclient.errors import BadRequest, ControlError, Forbidden, NameInUse, NotSupported, Unavailable
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running, until
from tests.support.tailnets import join, tailnet_client

LIST = ("GET", "/api/v2/tailnet/-/vip-services")
ONE = "/api/v2/tailnet/-/vip-services/{name}"
READ, PUT, DELETE = ("GET", ONE), ("PUT", ONE), ("DELETE", ONE)
HOSTS = ("GET", "/api/v2/tailnet/-/services/{name}/devices")
US, THEM = "nUS", "nTHEM"
OWNER = Owner("ingress", Key("default", "web"))
WANTED = TailscaleService("svc:web", (), ("tcp:443",), ("tag:k8s",), joined({}, US))

pytestmark = pytest.mark.virtual_time


def owned(name: str = "svc:web", *ids: str, **fields: object) -> Present:
    """Return a Tailscale Service that the operators with these *ids* own."""
    annotations: dict[str, str] = {}
    for each in ids:
        annotations = joined(annotations, each)
    return replace(Present(name, ("tcp:443",), ("tag:k8s",), annotations), **fields)  # type: ignore[arg-type]


@dataclass
class Ground:
    """A table of the Tailscale Services in the tailnet of *control*.

    *told* has the labels that the table has announced.
    """

    control: Control
    services: Services
    told: list[str]

    async def view(self, label: str = "web", *, hosts: bool = False) -> ServiceView:
        """Look at a Tailscale Service like a reconcile: wait for each pending answer, and then look again."""
        while isinstance(pending := (view := self.services.view(label, hosts=hosts)).pending, Pending):
            await pending.until
        return view

    async def known(self, label: str = "web") -> TailscaleService:
        """Return the Tailscale Service with this *label*, which the tailnet must have."""
        service = (await self.view(label)).service
        assert service is not None
        return service

    async def put(self, service: TailscaleService, before: TailscaleService | None) -> None:
        """Write *service* in place of *before*, the Tailscale Service that was read. Raises ControlError, NotAsked."""
        await self.carry_out(PutService("", OWNER, service, before))

    async def carry_out(self, step: PutService | DeleteService) -> None:
        """Carry out *step*, and try again after each wait. Raises ControlError, NotAsked."""
        while True:
            try:
                return await self.services.carry_out(step)
            except NotAsked:
                raise
            except Pending as pending:
                await pending.until

    def reads(self) -> tuple[int, int]:
        """Return the number of reads of the list of Services, and the number of reads of single Services."""
        return self.control.requests[LIST], self.control.requests[READ]

    def writes(self) -> int:
        """Return the number of requests to write a Service."""
        return self.control.requests[PUT] + self.control.requests[DELETE]


@asynccontextmanager
async def ground_of(*, headscale: bool = False) -> AsyncIterator[Ground]:
    control = Control(headscale=headscale)
    async with control.serve() as url, tailnet_client(control, url, Retry(tries=1)) as client:
        calls, told = Calls(), list[str]()
        devices = Devices(client)
        services = Services(client, calls, devices)
        devices.listen(services.device_changed)
        devices.want_names()
        services.listen(told.append)
        async with running(calls.run(), services.follow(), devices.follow()):
            yield Ground(control, services, told)


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    async with ground_of() as made:
        yield made


async def test_the_first_query_for_a_tailscale_service_reads_the_list_of_services_and_then_the_single_service(
    ground: Ground,
) -> None:
    ground.control.services.put(owned("svc:Web", US))
    ground.control.services.put(owned("svc:other", THEM))
    await asyncio.sleep(1000)
    assert ground.reads() == (0, 0)
    view = await ground.view("web")
    assert view.is_shown
    assert view.service is not None
    assert ownership(view.service, US).is_owner
    assert ground.reads() == (1, 1)
    assert sorted(set(ground.told)) == sorted(ground.services.labels()) == ["other", "web"]
    assert await ground.view("absent") == NO_SERVICE
    assert (ground.services.owned(US), ground.services.owned(THEM)) == (frozenset({"web"}), frozenset())
    assert ground.reads() == (1, 1)


@pytest.mark.parametrize("lists_annotations", [True, False])
async def test_the_table_reads_each_tailscale_service_once_at_its_start_and_at_most_two_lists_in_five_idle_minutes(
    ground: Ground, lists_annotations: bool
) -> None:
    ground.control.services.lists_annotations = lists_annotations
    labels = [f"web{number}" for number in range(100)]
    for label in labels:
        ground.control.services.put(owned(f"svc:{label}", US))
    assert all([(await ground.view(label)).is_shown for label in labels])
    assert ground.reads() == (1, 100)
    ground.told.clear()
    await asyncio.sleep(300)
    assert (ground.reads()[0] <= 2, ground.reads()[1], ground.told) == (True, 100, [])


@pytest.mark.parametrize("lists_annotations", [True, False])
async def test_a_query_after_some_minutes_reads_the_owners_of_a_tailscale_service_unless_the_list_shows_owners(
    ground: Ground, lists_annotations: bool
) -> None:
    ground.control.services.lists_annotations = lists_annotations
    ground.control.services.put(owned("svc:web", US))
    await ground.view()
    await asyncio.sleep(301)
    for _ in range(2):
        await ground.view()
        await asyncio.sleep(1)
    assert ground.reads()[1] == (1 if lists_annotations else 2)


def lose_scope(control: Control) -> None:
    control.scopes.discard("services")
    control.revoke_tokens()


def hang(control: Control) -> None:
    control.latency = 3600


def drop(control: Control) -> None:
    control.refuse(count=1000)


def heal(control: Control) -> None:
    control.heal()
    control.scopes.add("services")
    control.revoke_tokens()


FAULTS: dict[str, tuple[Callable[[Control], object], type[ControlError], float]] = {
    "no scope": (lose_scope, Forbidden, 300),
    "hangs": (hang, Unavailable, 25),
    "away": (drop, Unavailable, 10),
}
"""A fault of the control server, the error that the table shows, and the seconds from one read to the next."""


@pytest.mark.parametrize("is_retried", [True, False])
@pytest.mark.parametrize(("fault", "error", "seconds"), FAULTS.values(), ids=FAULTS)
async def test_a_list_of_tailscale_services_that_cannot_be_read_is_a_refusal_until_a_read_succeeds(
    ground: Ground, fault: Callable[[Control], object], error: type[ControlError], seconds: float, is_retried: bool
) -> None:
    fault(ground.control)
    view = await ground.view()
    assert (view.service, view.is_shown) == (None, False)
    assert view.refusal is not None
    assert isinstance(view.refusal.error, error)
    assert view.refusal.is_passing is (error is Unavailable)
    before = ground.reads()[0]
    for _ in range(20):
        assert (await ground.view()).refusal
        await asyncio.sleep(10)
    assert ground.reads()[0] <= before + 300 / seconds
    heal(ground.control)
    ground.told.clear()
    if is_retried:
        ground.services.retry()
    await asyncio.sleep(30 if is_retried else 301)  # one read may hang for a part of this time
    assert ground.told == ["web"]
    assert await ground.view() == NO_SERVICE


async def test_headscale_is_asked_for_tailscale_services_once_in_five_minutes() -> None:
    async with ground_of(headscale=True) as ground:
        view = await ground.view()
        await asyncio.sleep(299)
        assert (await ground.view()) == view
        assert ground.control.requests[LIST] == 1
    assert view.refusal is not None
    assert isinstance(view.refusal.error, NotSupported)
    assert view.refusal.reason == "UnsupportedByControlServer"


async def test_known_tailscale_services_stay_when_the_list_can_no_longer_be_read(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    view = await ground.view()
    lose_scope(ground.control)
    ground.told.clear()
    await asyncio.sleep(900)
    assert ground.reads()[0] > 1
    assert (await ground.view(), ground.told) == (view, [])
    await asyncio.sleep(301)  # the read for the last query was refused, too
    assert (await ground.view(), ground.told) == (view, [])


async def test_a_tailscale_service_that_is_refused_again_after_a_retry_is_not_asked_for_within_five_minutes(
    ground: Ground,
) -> None:
    ground.control.services.put(owned("svc:web", US))
    await ground.view("absent")
    ground.control.fail(403, count=100, path=ONE)
    await ground.view()
    await asyncio.sleep(200)
    ground.services.retry()
    await ground.view()
    reads = ground.reads()[1]
    await asyncio.sleep(250)
    assert not (await ground.view()).is_shown
    assert ground.reads()[1] == reads


@pytest.mark.parametrize("is_retried", [True, False])
@pytest.mark.parametrize(("fault", "error", "seconds"), FAULTS.values(), ids=FAULTS)
async def test_a_tailscale_service_that_cannot_be_read_is_a_refusal_until_it_can_be_read(
    ground: Ground, fault: Callable[[Control], object], error: type[ControlError], seconds: float, is_retried: bool
) -> None:
    labels = [f"web{number}" for number in range(20)]
    for label in labels:
        ground.control.services.put(owned(f"svc:{label}", US))
    await ground.view("absent")
    fault(ground.control)
    views = await asyncio.gather(*map(ground.view, labels))
    for view in views:
        assert (view.is_shown, view.service and view.service.annotations) == (False, None)
        assert view.refusal is not None
        assert isinstance(view.refusal.error, error)
        assert view.service is not None
        assert view.service.addresses
    before = ground.reads()[1]
    # If the control server doesn't answer, the other Tailscale Services aren't tried.
    assert before <= (20 + 8 if error is Forbidden else 2 * 8)
    for _ in range(20):
        assert not ground.services.view("web0").is_shown
        await asyncio.sleep(10)
    assert ground.reads()[1] <= before + 2 * 300 / seconds
    heal(ground.control)
    ground.told.clear()
    ground.services.view("web0")
    if is_retried:
        ground.services.retry()
    await asyncio.sleep(30 if is_retried else 301)
    assert "web0" in ground.told
    assert (await ground.view("web0")).is_shown


EDITS: dict[str, Present | None] = {
    "ports": owned("svc:web", US, ports=("tcp:80",)),
    "tags": owned("svc:web", US, tags=("tag:other",)),
    "owners": owned("svc:web", US, THEM),
    "gone": None,
}


def edit(control: Control, service: Present | None) -> None:
    if service is None:
        control.services.delete("svc:web")
    else:
        control.services.put(service)


@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS)
async def test_a_change_of_a_tailscale_service_that_the_list_shows_is_read_and_announced(
    ground: Ground, edited: Present | None
) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    ground.told.clear()
    edit(ground.control, edited)
    await asyncio.sleep(301)
    assert ground.told == ["web"]
    if edited is None:
        assert ground.services.view("web") == NO_SERVICE
    else:
        wanted = replace(before, ports=edited.ports, tags=edited.tags, annotations=edited.annotations)
        assert await ground.known() == wanted
    assert ground.reads() == (2, 1 if edited is None else 2)


async def test_a_tailscale_service_is_created_changed_and_deleted_by_one_read_and_one_write_each(
    ground: Ground,
) -> None:
    await ground.view()
    ground.told.clear()
    await ground.put(WANTED, None)
    created = await ground.known()
    assert created.addresses == ground.control.services.present["svc:web"].addresses
    await ground.put(replace(created, ports=("tcp:80",)), created)
    changed = await ground.known()
    assert changed == replace(created, ports=("tcp:80",))
    await ground.carry_out(DeleteService("", OWNER, changed))
    assert await ground.view() == NO_SERVICE
    assert (ground.writes(), ground.reads()[1], ground.told) == (3, 3, ["web"] * 3)


async def test_a_write_keeps_changes_that_others_have_made_since_the_tailscale_service_was_read(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    ground.control.services.put(owned("svc:web", US, display_name="Web", comment="mine"))
    await ground.put(replace(before, ports=("tcp:80",)), before)
    present = ground.control.services.present["svc:web"]
    assert (present.display_name, present.comment, present.ports) == ("Web", "mine", ("tcp:80",))


async def test_a_tailscale_service_that_exists_already_does_not_get_our_comment(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US, ports=("tcp:80",)))
    await ground.put(WANTED, await ground.known())
    assert ground.control.services.present["svc:web"].comment == ""


async def test_a_tailscale_service_is_read_again_after_a_write_without_an_answer(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    ground.control.lose_answers(method="PUT", count=2)
    with pytest.raises(Unavailable):
        await ground.put(replace(before, ports=("tcp:80",)), before)
    ground.told.clear()
    ground.services.view("web")
    await asyncio.sleep(1)
    assert ((await ground.known()).ports, ground.told) == (("tcp:80",), ["web"])


@pytest.mark.parametrize("is_deletion", [True, False])
@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS)
async def test_a_tailscale_service_that_has_changed_meanwhile_is_not_written(
    ground: Ground, edited: Present | None, is_deletion: bool
) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    edit(ground.control, edited)
    ground.told.clear()
    step = DeleteService("", OWNER, before) if is_deletion else PutService("", OWNER, WANTED, before)
    if edited is None and is_deletion:
        await ground.carry_out(step)
    else:
        with pytest.raises(NotAsked) as raised:
            await ground.carry_out(step)
        assert raised.value.until.done()
    assert (ground.writes(), ground.told) == (0, ["web"])
    seen = (await ground.view()).service
    assert (seen and (seen.ports, seen.tags, seen.annotations)) == (
        edited and (edited.ports, edited.tags, edited.annotations)
    )


async def test_a_tailscale_service_that_somebody_has_made_meanwhile_is_not_written(ground: Ground) -> None:
    await ground.view()
    ground.control.services.put(owned("svc:web", THEM))
    with pytest.raises(NotAsked):
        await ground.put(WANTED, None)
    assert (ground.writes(), (await ground.known()).annotations) == (0, joined({}, THEM))


async def test_another_order_of_ports_or_tags_and_another_comment_do_not_count_as_changes(ground: Ground) -> None:
    ports, tags = ("tcp:443", "tcp:80"), ("tag:a", "tag:b")
    ground.control.services.put(owned("svc:web", US, ports=ports, tags=tags))
    before = await ground.known()
    ground.control.services.put(owned("svc:web", US, ports=ports[::-1], tags=tags[::-1], comment="mine"))
    await ground.carry_out(DeleteService("", OWNER, before))
    assert not ground.control.services.present


@pytest.mark.parametrize("is_deletion", [True, False])
async def test_the_refusal_of_a_write_without_an_answer_ends_when_the_table_sees_the_effect(
    ground: Ground, is_deletion: bool
) -> None:
    if is_deletion:
        ground.control.services.put(owned("svc:web", US))
    before = (await ground.view()).service
    step = DeleteService("", OWNER, before) if before else PutService("", OWNER, WANTED, None)
    ground.control.lose_answers(method="DELETE" if is_deletion else "PUT", count=2)  # aiohttp tries twice
    with pytest.raises(Unavailable):
        await ground.carry_out(step)
    refused = ground.services.view("web").refusal
    assert refused is not None
    assert (refused.is_passing, refused.step) == (True, step)
    written = ground.writes()
    if is_deletion:
        await ground.carry_out(step)
    else:
        with pytest.raises(NotAsked):
            await ground.carry_out(step)
    view = await ground.view()
    assert (view.refusal, view.is_shown, view.service is None) == (None, True, is_deletion)
    assert ground.writes() == written


async def test_every_query_for_a_tailscale_service_shows_a_refused_write_and_the_refusal_is_announced_once(
    ground: Ground,
) -> None:
    await ground.view()
    ground.told.clear()
    ground.control.policy_tags = {"tag:k8s"}
    wanted = replace(WANTED, tags=("tag:other",))
    for _ in range(3):
        with pytest.raises(BadRequest, match="tag:other"):
            await ground.put(wanted, None)
    view = await ground.view()
    assert (view.service, view.is_shown, ground.told) == (None, True, ["web"])
    assert view.refusal is not None
    assert view.refusal.step == PutService("", OWNER, wanted, None)
    assert "tagOwners" in view.refusal.message
    await ground.put(WANTED, None)
    assert (await ground.view()).refusal is None


async def test_the_refusal_to_write_a_tailscale_service_is_forgotten_once_nobody_wants_that_write(
    ground: Ground,
) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    ground.control.fail(400, method="PUT")
    with pytest.raises(BadRequest):
        await ground.put(replace(before, ports=("tcp:80",)), before)
    assert (await ground.view()).refusal
    ground.told.clear()
    for _ in range(2):
        ground.services.settled("web")
    assert ((await ground.view()).refusal, ground.told) == (None, ["web"])


@pytest.mark.parametrize("words", ["requested tags [tag:k8s] are invalid or not permitted", "no", "name is in use"])
@pytest.mark.parametrize("is_device", [True, False])
async def test_the_error_of_a_refused_tailscale_service_says_whether_a_device_has_the_name(
    ground: Ground, is_device: bool, words: str
) -> None:
    if is_device:
        join(ground.control, "web")
    await ground.view()
    await asyncio.sleep(1)
    ground.control.answer(f'{{"message": "{words}"}}', status=400, method="PUT")
    with pytest.raises(BadRequest) as raised:
        await ground.put(WANTED, None)
    assert isinstance(raised.value, NameInUse) is ("use" in words or (words == "no" and is_device))


async def test_a_tailscale_service_whose_name_a_device_had_is_announced_when_the_device_is_gone(ground: Ground) -> None:
    device = join(ground.control, "web")
    await ground.view()
    await asyncio.sleep(1)
    with pytest.raises(NameInUse, match="already in use by a device"):
        await ground.put(WANTED, None)
    ground.told.clear()
    ground.control.delete_device(device)
    await asyncio.sleep(301)
    assert ground.told == ["web"]
    await ground.put(WANTED, None)


@pytest.mark.parametrize("lists_annotations", [True, False])
async def test_the_table_sees_after_five_seconds_that_another_operator_has_overwritten_a_tailscale_service(
    ground: Ground, lists_annotations: bool
) -> None:
    ground.control.services.lists_annotations = lists_annotations
    await ground.view()
    await ground.put(WANTED, None)
    ground.control.services.put(owned("svc:web", THEM))
    ground.told.clear()
    await asyncio.sleep(6)
    assert (ground.told, ground.services.owned(US)) == (["web"], frozenset())
    assert ground.reads() == (2, 2)


@pytest.mark.parametrize("lists_annotations", [True, False])
async def test_after_writes_the_list_is_read_every_five_seconds_and_a_service_only_if_the_list_lacks_owners(
    ground: Ground, lists_annotations: bool
) -> None:
    ground.control.services.lists_annotations = lists_annotations
    await ground.view()
    for number in range(100):
        await ground.view(f"web{number}")
        await ground.put(replace(WANTED, name=f"svc:web{number}"), None)
        await asyncio.sleep(0.1)
    await asyncio.sleep(60)
    lists, singles = ground.reads()
    assert lists <= 1 + 4
    assert singles == (100 if lists_annotations else 200)


async def test_the_unused_result_of_a_write_is_not_taken_for_the_result_of_a_later_equal_write(
    ground: Ground,
) -> None:
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    wanted = replace(before, ports=("tcp:80",))
    ground.control.latency = 1
    with pytest.raises(Pending) as pending:
        await ground.services.carry_out(PutService("", OWNER, wanted, before))
    await pending.value.until
    assert await ground.known() == wanted  # the key isn't reconciled again, so the result of the write stays unused
    ground.control.services.put(owned("svc:web", US))
    await asyncio.sleep(10)
    assert await ground.known() == before
    ground.control.latency = 0
    await ground.put(wanted, before)
    assert (ground.writes(), ground.control.services.present["svc:web"].ports) == (2, ("tcp:80",))


async def test_the_answer_to_a_read_that_began_before_a_write_does_not_undo_the_write(ground: Ground) -> None:
    ground.control.services.lists_annotations = False
    ground.control.services.put(owned("svc:web", US))
    before = await ground.known()
    await asyncio.sleep(301)
    ground.control.latency = 2
    ground.services.view("web")  # begins a read
    await asyncio.sleep(1)
    ground.control.latency = 0
    await ground.put(replace(before, ports=("tcp:80",)), before)
    ground.control.answer(json.dumps({"name": "svc:web", "addrs": before.addresses, "ports": before.ports}))
    await asyncio.sleep(2)
    assert ground.reads()[1] == 3
    assert (await ground.known()).ports == ("tcp:80",)


async def test_a_list_that_was_asked_for_before_a_write_does_not_undo_the_write(ground: Ground) -> None:
    await ground.view()
    await asyncio.sleep(269)  # the next list is read a second later at the earliest
    ground.control.latency = 2
    await until(lambda: ground.reads()[0] == 2, seconds=60)
    ground.control.latency = 0
    ground.told.clear()
    await ground.put(WANTED, None)
    ground.control.answer('{"vipServices": []}', path=LIST[1])
    await asyncio.sleep(2.5)
    assert (ground.reads()[0], ground.told) == (2, ["web"])
    assert (await ground.known()).ports == WANTED.ports


async def test_the_hosts_of_a_tailscale_service_are_read_on_demand_and_again_after_some_seconds(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    ground.control.services.approvers = {}
    device = join(ground.control)
    assert (await ground.view()).hosts == ()
    assert (await ground.view(hosts=True)).hosts == ()
    ground.control.services.report(device.node_id, {"svc:web": Host()})
    assert (await ground.view(hosts=True)).hosts == ()
    await asyncio.sleep(5)
    assert [each.is_approved for each in (await ground.view(hosts=True)).hosts] == [False]
    ground.control.services.approve("svc:web", device.node_id)
    await asyncio.sleep(5)
    assert [each.is_approved for each in (await ground.view(hosts=True)).hosts] == [True]
    await asyncio.sleep(29)
    await ground.view(hosts=True)
    assert ground.control.requests[HOSTS] == 3
    await ground.carry_out(DeleteService("", OWNER, await ground.known()))
    await ground.put(WANTED, None)
    assert ground.services.view("web", hosts=True).pending


async def test_hosts_that_cannot_be_read_are_a_refusal_and_not_an_empty_list(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    await ground.view()
    ground.control.scopes.discard("devices:core")
    ground.control.revoke_tokens()
    view = await ground.view(hosts=True)
    assert view.refusal is not None
    assert isinstance(view.refusal.error, Forbidden)
    assert view.service is not None
    assert (await ground.view()).is_shown
    ground.told.clear()
    await asyncio.sleep(299)
    assert ((await ground.view(hosts=True)).refusal, ground.control.requests[HOSTS]) == (
        view.refusal,
        2,
    )  # the first of the two requests had the old access token
    await asyncio.sleep(2)
    assert ground.told == ["web"]


@pytest.mark.parametrize("is_listed", [True, False])
async def test_the_end_of_a_tailnets_registration_wakes_waiting_reconciles_and_announces_its_services(
    ground: Ground, is_listed: bool
) -> None:
    ground.control.services.put(owned("svc:web", US))
    if is_listed:
        await ground.view("absent")
    ground.control.latency = 3600
    pending = ground.services.view("web").pending
    assert isinstance(pending, Pending)
    ground.told.clear()
    ground.services.end()
    assert (pending.until.done(), ground.told) == (True, ["web"])
