"""The table of Tailscale Services: its reads from the control server, and its answers."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from clustersim.control import Control
from clustersim.tailnetservices import Host
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.owners import ownership
from tsoperator.proxy.serviceview import NO_SERVICE
from tsoperator.runtime.plan import DeleteService
from tsoperator.runtime.result import Pending
from tsoperator.tsclient.errors import ControlError, Forbidden, NotSupported, Unavailable

from tests.operator.tailnet.servicetable import (
    EDITS,
    HOSTS,
    LIST,
    ONE,
    OWNER,
    THEM,
    US,
    WANTED,
    Ground,
    edit,
    ground_of,
    owned,
)
from tests.support.tailnets import join

pytestmark = pytest.mark.virtual_time


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
async def test_the_table_reads_each_tailscale_service_once_and_the_list_at_most_twice_in_the_first_five_minutes(
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


async def test_a_tailscale_service_is_not_read_for_five_minutes_after_the_control_server_has_refused_a_retry(
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


@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS)
async def test_a_change_of_a_tailscale_service_that_the_list_shows_is_read_and_announced(
    ground: Ground, edited: Present | None
) -> None:
    before = await ground.there()
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
    assert (await ground.view(hosts=True)).refusal == view.refusal
    assert ground.control.requests[HOSTS] == 2  # the first of the two requests had the old access token
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
