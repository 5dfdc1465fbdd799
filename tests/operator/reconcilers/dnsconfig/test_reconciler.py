"""DNSConfigs on a cluster: the operator runs, and the state of the world is looked at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    SUFFIXES,
    Key,
    Object,
)
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS
from tsoperator.reconcilers.dnsconfig.asking import ask
from tsoperator.reconcilers.dnsconfig.probes import VERDICT, Prober
from tsoperator.reconcilers.dnsconfig.reconciler import DNSConfigReconciler
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.manager import Manager
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.cluster import running
from tests.support.manifests import FQDN, backend, dnsconfig, egress
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, Condition, World, running_operator
from tests.support.tailnets import applier

READY = "NameserverReady"
CHILDREN = {
    SERVICEACCOUNT: "nameserver",
    ROLE: "nameserver",
    ROLEBINDING: "nameserver",
    DEPLOYMENT: "nameserver",
    SERVICE: "nameserver",
    CONFIGMAP: "dnsrecords",
}


async def missing(world: World) -> list[str]:
    """Return the kinds of which a nameserver has no object."""
    return [str(kind) for kind, name in CHILDREN.items() if await world.find(kind, name) is None]


async def running_nameserver(world: World, obj: Object) -> Object:
    """Wait until the nameserver of *obj* is there and nothing is left to do, and return the DNSConfig."""
    await world.becomes(lambda: world.reason(obj, READY), "NameserverCreated")
    await world.becomes(lambda: missing(world), [])
    await world.settled()
    return await world.look(obj)


async def deployment(world: World) -> Object:
    found = await world.find(DEPLOYMENT, "nameserver")
    assert found is not None
    return found


async def image(world: World) -> str:
    return str((await deployment(world))["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_the_wishes_of_a_dnsconfig_reach_the_nameserver(world: World) -> None:
    asked = dnsconfig(
        image={"repo": "example.org/ns", "tag": "v1"}, replicas=3, service={"clusterIP": "10.96.4.3"},
        pod={"nodeSelector": {"disk": "fast"}},
    )  # fmt: skip
    await world.apply(asked)
    obj = await running_nameserver(world, asked)
    spec = (await deployment(world))["spec"]
    assert (await image(world), spec["replicas"]) == ("example.org/ns:v1", 3)
    assert spec["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    assert obj["status"]["nameserver"]["ip"] == "10.96.4.3"


async def test_the_second_dnsconfig_takes_over_when_the_first_goes(world: World) -> None:
    second = dnsconfig("second")
    await world.apply(dnsconfig(), egress())
    await running_nameserver(world, dnsconfig())
    await world.apply(second)
    await world.becomes(lambda: world.reason(second, READY), "MultipleDNSConfigsPresent")
    await world.delete(dnsconfig())
    await running_nameserver(world, second)
    await world.eventually(lambda: world.gone(dnsconfig()))
    await world.becomes(lambda: missing(world), [])
    await world.becomes(lambda: served_names(world), [FQDN])
    assert not await world.writes_when_left_alone()


async def served_names(world: World) -> list[str]:
    """Return the names that have records."""
    return sorted(await world.records())


@pytest.mark.simulated  # the CRD's schema refuses such a DNSConfig, unless it was there first
async def test_names_are_kept_up_to_date_while_the_dnsconfig_is_invalid(world: World) -> None:
    await world.apply(dnsconfig())
    await running_nameserver(world, dnsconfig())
    await world.change(dnsconfig(), {"spec": {"nameserver": {"replicas": "many"}}})
    await world.apply(egress())
    await world.becomes(lambda: served_names(world), [FQDN])


async def incomplete(world: World) -> str:
    """Return the reason for which names are left out, if any are."""
    return await world.reason(dnsconfig(), "RecordsComplete")


async def test_names_that_are_left_out_are_told_until_there_is_room(cluster: World) -> None:
    async with running_operator(cluster):
        await cluster.apply(dnsconfig())
        obj = await running_nameserver(cluster, dnsconfig())
    note = {"metadata": {"annotations": {"tailscale.com/records-left-out": "12"}}}
    await cluster.api.patch(CONFIGMAP, Key(NAMESPACE, "dnsrecords"), note)
    async with running_dnsconfigs(cluster):
        await cluster.becomes(lambda: incomplete(cluster), "TooManyNames")
    assert await cluster.reason(obj, READY) == "NameserverCreated"
    async with running_operator(cluster):
        await cluster.becomes(lambda: incomplete(cluster), "")


@asynccontextmanager
async def running_dnsconfigs(world: World) -> AsyncIterator[None]:
    """Run the reconciler of DNSConfigs alone, so that a test can be the one that writes records."""
    cache = Cache(sources(NAMESPACE))
    tailnets, prober = Tailnets([]), Prober(ask)
    reconciler = DNSConfigReconciler(cache, applier(world.api, cache, tailnets), prober, settings())
    manager = Manager(
        cache,
        [reconciler],
        ControllerMetrics(CollectorRegistry()),
        feeds={SUFFIXES: tailnets, VERDICT: prober},
    )
    async with running(manager.run(world.api, None)):
        yield


async def test_a_change_of_openshifts_dns_is_looked_at_without_a_dnsconfig(cluster: World) -> None:
    cache, tailnets = Cache(sources(NAMESPACE)), Tailnets([])
    reconciler = DNSConfigReconciler(cache, applier(cluster.api, cache, tailnets), Prober(ask), settings())
    assert [*reconciler.watches[OPENSHIFT_DNS]({})] == [Key("", "")]


ADDRESS = "10.96.4.3"


async def test_a_nameserver_whose_address_is_taken_is_told_of_until_it_is_free(world: World) -> None:
    asked, taker = dnsconfig(service={"clusterIP": ADDRESS}), backend("taker", clusterIP=ADDRESS)
    await world.apply(taker, asked)
    await world.becomes(lambda: world.reason(asked, READY), "NameserverCreationFailed")
    told = await world.condition(asked, READY)
    assert told is not None
    assert (told.status, "provided IP is already allocated" in told.message) == ("False", True)
    assert (await world.events(asked))[told.reason] == told.message
    assert "nameserver" not in (await world.look(asked))["status"]
    await world.delete(taker)
    assert (await running_nameserver(world, asked))["status"]["nameserver"] == {"ip": ADDRESS}
    assert await world.condition(asked, READY) == Condition("True", "NameserverCreated", "NameserverCreated")
    assert not await world.writes_when_left_alone()
