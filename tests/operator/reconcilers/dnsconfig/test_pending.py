"""DNSConfigs whose nameserver isn't ready: the operator doesn't change the configuration of the cluster's DNS."""

import pytest
from clustersim.furniture import COREFILE

from tests.operator.reconcilers.dnsconfig.test_managed import configured, corefile, managed, told
from tests.support.operator import World

READY, PENDING = "NameserverReady", "NameserverPending"
BROKEN = {"spec": {"nameserver": {"image": {"repo": "registry.invalid/tsnameserver", "tag": "v1"}}}}
SOUND = {"spec": {"nameserver": {"image": {"repo": "example.org/tsnameserver"}}}}


@pytest.mark.simulated
async def test_an_image_that_does_not_start_leaves_the_clusters_dns_unchanged(world: World) -> None:
    await world.apply({**managed(), "spec": {**managed()["spec"], **BROKEN["spec"]}})
    message = await told(world, PENDING)
    assert "no Pod of the nameserver is ready" in message
    assert await world.reason(managed(), READY) == PENDING
    assert not await world.writes_when_left_alone()
    assert await corefile(world) == COREFILE
    await world.change(managed(), SOUND)
    await configured(world)
    await world.becomes(lambda: world.reason(managed(), READY), "NameserverCreated")


@pytest.mark.simulated
async def test_the_stub_domain_stays_while_no_pod_of_the_nameserver_is_ready(world: World) -> None:
    await world.apply(managed())
    text, _ = await configured(world)
    await world.change(managed(), BROKEN)
    await world.becomes(lambda: world.reason(managed(), READY), PENDING)
    assert not await world.writes_when_left_alone()
    assert await configured(world) == (text, text.removeprefix(COREFILE))
