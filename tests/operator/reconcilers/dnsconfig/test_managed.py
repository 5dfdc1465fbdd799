"""The cluster's DNS of a simulated cluster, while a DNSConfig asks for it to be managed."""

import pytest
from clustersim.furniture import COREFILE
from tsoperator.api.objects import Object

from tests.support.manifests import dnsconfig
from tests.support.operator import World

pytestmark = pytest.mark.simulated

CONFIGURED = "ClusterDNSConfigured"
COREDNS: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "coredns"}}


def managed(name: str = "dns", mode: str = "Managed") -> Object:
    """Return a DNSConfig that asks for the cluster's DNS to be managed."""
    asked = dnsconfig(name)
    return {**asked, "spec": {**asked["spec"], "clusterDNS": {"mode": mode}}}


async def corefile(world: World) -> str:
    """Return what CoreDNS reads."""
    return str((await world.look(COREDNS))["data"]["Corefile"])


async def written(world: World) -> str:
    """Wait until our stub domain is there, and return what CoreDNS reads."""
    await world.becomes(lambda: world.reason(managed(), CONFIGURED), "Written")
    return await corefile(world)


async def test_the_corefile_asks_the_nameserver_and_is_as_before_in_mode_manual(world: World) -> None:
    await world.apply(managed())
    text = await written(world)
    ip = (await world.look(managed()))["status"]["nameserver"]["ip"]
    assert text.startswith(COREFILE)
    assert f"forward . {ip}\n" in text.removeprefix(COREFILE)
    assert not await world.writes_when_left_alone()
    await world.change(managed(), {"spec": {"clusterDNS": {"mode": "Manual"}}})
    await world.becomes(lambda: corefile(world), COREFILE)
    await world.becomes(lambda: world.condition(managed(), CONFIGURED), None)
