"""The DNSConfig that the operator makes by itself, in a cluster."""

import logging

import pytest
from clustersim.faults import Failure
from clustersim.furniture import COREFILE
from tsoperator.api.names import LABEL_MANAGED
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, Object, key_of, labels
from tsoperator.reconcilers.owndnsconfig.plan import own_dnsconfig

from tests.support.manifests import dnsconfig
from tests.support.operator import World, running_operator

OURS = own_dnsconfig()
CONFIGURED = "ClusterDNSConfigured"


async def corefile(world: World) -> str:
    found = await world.find(CONFIGMAP, "coredns", "kube-system")
    return str(found["data"]["Corefile"]) if found else ""


async def found(world: World, obj: Object) -> Object:
    """Return the DNSConfig with the name of *obj*; empty if there is none now."""
    return await world.find(DNSCONFIG, key_of(obj).name, "") or {}


async def configured(world: World, obj: Object = OURS) -> None:
    """Wait until the operator has written the stub domain for *obj*."""

    async def is_written() -> bool:
        conditions = ((await found(world, obj)).get("status") or {}).get("conditions") or ()
        return (CONFIGURED, "StubDomainWritten") in [(each["type"], each["reason"]) for each in conditions]

    await world.eventually(is_written)


async def test_the_operator_makes_a_dnsconfig_while_a_setting_says_so_and_later_removes_it_and_its_stub_domain(
    cluster: World,
) -> None:
    async with running_operator(cluster, makes_dnsconfig=True):
        await configured(cluster)
        assert await corefile(cluster) != COREFILE
        assert not await cluster.writes_when_left_alone()
        assert "DNSConfigKept" not in await cluster.events(OURS)
    async with running_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(OURS))
        await cluster.becomes(lambda: corefile(cluster), COREFILE)
        assert not await cluster.writes_when_left_alone()


async def test_the_operator_keeps_edits_of_its_dnsconfig_and_restores_a_deleted_dnsconfig(cluster: World) -> None:
    async with running_operator(cluster, makes_dnsconfig=True):
        await configured(cluster)
        await cluster.change(OURS, {"spec": {"nameserver": {"replicas": 1}}})
        assert not [each for each in await cluster.writes_when_left_alone() if "dnsconfigs" in str(each)]
        assert (await cluster.look(OURS))["spec"]["nameserver"] == {"replicas": 1}
        await cluster.delete(OURS)

        async def is_new() -> bool:
            return bool((await found(cluster, OURS)).get("spec") == OURS["spec"])

        await cluster.eventually(is_new)
        await configured(cluster)


async def test_the_operator_makes_no_dnsconfig_if_a_user_has_made_one(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    theirs = dnsconfig("theirs")
    await cluster.apply(theirs)
    async with running_operator(cluster, makes_dnsconfig=True):
        await cluster.becomes(lambda: cluster.reason(theirs, "NameserverReady"), "NameserverCreated")
        assert "leaves it as it is" in (await cluster.events(theirs))["DNSConfigKept"]
        assert not await cluster.writes_when_left_alone()
        assert await cluster.gone(OURS)
    assert caplog.text.count("DNSConfig theirs is there already") == 1
    async with running_operator(cluster):
        await cluster.settled()
        assert not await cluster.gone(theirs)


async def test_a_dnsconfig_without_the_operators_label_belongs_to_the_user_and_stays(cluster: World) -> None:
    async with running_operator(cluster, makes_dnsconfig=True):
        await configured(cluster)
        await cluster.change(OURS, {"metadata": {"labels": {LABEL_MANAGED: None}}})
    async with running_operator(cluster):
        await cluster.settled()
        assert not labels(await cluster.look(OURS))
        assert await corefile(cluster) != COREFILE


@pytest.mark.simulated
async def test_a_warning_that_the_operator_cannot_delete_its_dnsconfig_ends_when_a_user_removes_our_label(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    cluster.sim.faults.fail(Failure(403, 1000, "delete", "dnsconfigs"))
    await cluster.apply(OURS)
    async with running_operator(cluster):
        await configured(cluster)
        assert caplog.text.count("DNSConfigNotRemoved: ") == 1
        assert "no longer" not in caplog.text
        await cluster.change(OURS, {"metadata": {"labels": {LABEL_MANAGED: None}}})
        await cluster.settled()
    assert "no longer DNSConfigNotRemoved" in caplog.text


@pytest.mark.simulated
async def test_the_log_names_the_chart_value_that_lets_the_operator_make_a_dnsconfig(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.sim.faults.fail(Failure(403, 2, "create", "dnsconfigs"))
    async with running_operator(cluster, makes_dnsconfig=True):
        await configured(cluster)
    assert caplog.text.count("the chart gives the right by dns.enabled") == 1
