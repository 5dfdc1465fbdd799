"""Another writer that reverts the operator's changes of the configuration of the cluster's DNS."""

import asyncio
from contextlib import suppress

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.furniture import COREFILE
from tsoperator.api.objects import Object, key_of
from tsoperator.kube.errors import NotFound
from tsoperator.runtime.rewrites import LAG, LONGEST

from tests.operator.reconcilers.dnsconfig.test_managed import (
    COREDNS,
    MANUAL,
    configured,
    corefile,
    delete,
    managed,
    told,
    write,
)
from tests.support.cluster import running
from tests.support.operator import World
from tests.support.rivals import Rival

TEN_MINUTES = 600.0
MANAGED_FIELDS = [{"manager": "eks", "time": "2030-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:Corefile": {}}}}]


def rival(corefile: str = COREFILE, delay: float = 0.5) -> Rival:
    """Return a writer that writes its own *corefile* again *delay* seconds after the operator wrote another one."""
    patch = {"metadata": {"managedFields": MANAGED_FIELDS}, "data": {"Corefile": corefile}}
    return Rival(COREDNS, patch, lambda configmap: bool(configmap["data"]["Corefile"] != corefile), delay)


async def writes(world: World, other: Rival, seconds: float) -> int:
    """Return the number of writes of ConfigMaps within that many *seconds*, without the writes of *other*."""
    before = other.writes
    written = await world.writes_during(asyncio.sleep(seconds))
    return sum(times for (_, _, plural), times in written.items() if plural == "configmaps") - other.writes + before


@pytest.mark.simulated
@pytest.mark.parametrize("delay", [0, 0.5, 3])
async def test_the_operator_writes_rarely_while_another_writer_removes_the_stub_domain(
    world: World, delay: float
) -> None:
    await world.apply(managed())
    before = await configured(world)
    async with rival(delay=delay).at_work(world) as other:
        assert 10 <= await writes(world, other, TEN_MINUTES) <= 20
        message = await told(world, "StubDomainOverwritten")
        assert message.startswith("eks keeps undoing the operator's changes of key Corefile of ConfigMap kube-system/")
        assert (await world.events(managed()))["StubDomainOverwritten"] == message
    await asyncio.sleep(2 * LONGEST + 1)
    assert await configured(world) == before
    assert not await world.writes_when_left_alone()


@pytest.mark.simulated
async def test_the_operator_writes_rarely_while_another_writer_puts_the_stub_domain_back(world: World) -> None:
    await world.apply(managed())
    text, _ = await configured(world)
    async with rival(text).at_work(world) as other:
        await world.change(managed(), MANUAL)
        assert await writes(world, other, 60) <= 12
        assert "take the lines of the operator out" in await told(world, "StubDomainOverwritten")
        await delete(world)
        assert await writes(world, other, 120) <= 4


@pytest.mark.simulated
async def test_the_operator_repeats_a_failed_write_of_the_corefile_sooner_than_a_write_that_was_reverted(
    world: World,
) -> None:
    await world.apply(managed())
    before = await configured(world)
    world.sim.faults.fail(Failure(status=500, verb="patch", plural="configmaps"))
    world.store.merge(kinds.CONFIGMAP, *key_of(COREDNS), {"data": {"Corefile": COREFILE}})
    await world.becomes(lambda: corefile(world), before[0], timeout=LAG - 1)


CUSTOM: Object = {**COREDNS, "metadata": {"namespace": "kube-system", "name": "coredns-custom"}}


@pytest.mark.simulated
async def test_the_operator_writes_rarely_while_another_writer_deletes_the_operators_configmap(world: World) -> None:
    async def prune() -> None:
        while True:
            await asyncio.sleep(0.5)
            with suppress(NotFound):
                await world.delete(CUSTOM)

    await write(world, f"{COREFILE}import /etc/coredns/custom/*.server\n")
    await world.apply(managed())
    await told(world, "StubDomainWritten")
    async with running(prune()):
        written = await world.writes_during(asyncio.sleep(60))
        assert "key tailnet.server of ConfigMap kube-system/coredns-custom" in await told(
            world, "StubDomainOverwritten"
        )
    assert written["tsoperator", "create", "configmaps"] <= 12
