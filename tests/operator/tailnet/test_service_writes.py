"""The writes of Tailscale Services by the table of Tailscale Services, and the reads after the writes."""

import asyncio
import json
from dataclasses import replace

import pytest
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.owners import joined
from tsoperator.proxy.serviceview import NO_SERVICE
from tsoperator.runtime.plan import DeleteService, PutService
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import NotAsked
from tsoperator.tsclient.errors import BadRequest, NameInUse, Unavailable

from tests.operator.tailnet.servicetable import EDITS, LIST, OWNER, THEM, US, WANTED, Ground, edit, owned
from tests.support.cluster import until
from tests.support.tailnets import join

pytestmark = pytest.mark.virtual_time


async def test_each_creation_change_or_deletion_of_a_tailscale_service_takes_one_read_and_one_write(
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
    before = await ground.there()
    ground.control.services.put(owned("svc:web", US, display_name="Web", comment="mine"))
    await ground.put(replace(before, ports=("tcp:80",)), before)
    present = ground.control.services.present["svc:web"]
    assert (present.display_name, present.comment, present.ports) == ("Web", "mine", ("tcp:80",))


async def test_a_tailscale_service_that_exists_already_does_not_get_our_comment(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US, ports=("tcp:80",)))
    await ground.put(WANTED, await ground.known())
    assert ground.control.services.present["svc:web"].comment == ""


async def test_a_tailscale_service_is_read_again_after_a_write_without_an_answer(ground: Ground) -> None:
    before = await ground.there()
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
    before = await ground.there()
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


async def test_a_refused_write_of_a_tailscale_service_is_announced_once_and_shown_until_a_write_succeeds(
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
    before = await ground.there()
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
async def test_the_error_for_a_refused_tailscale_service_shows_whether_a_device_has_the_name_of_the_service(
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
async def test_writes_are_checked_by_a_list_each_five_seconds_and_by_single_reads_if_the_list_lacks_owners(
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
    before = await ground.there()
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
    before = await ground.there()
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
