"""DNSConfigs on a cluster: the operator runs, and the state of the world is looked at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from clustersim.faults import Ban
from prometheus_client import CollectorRegistry
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    EVENT,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    SUFFIXES,
    Key,
    Object,
    key_of,
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
    """Return the nameserver's Deployment."""
    found = await world.find(DEPLOYMENT, "nameserver")
    assert found is not None
    return found


async def image(world: World) -> str:
    """Return the nameserver's image."""
    return str((await deployment(world))["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_a_dnsconfig_gets_a_nameserver_and_shows_its_address(world: World) -> None:
    await world.apply(dnsconfig())
    obj = await running_nameserver(world, dnsconfig())
    service = await world.find(SERVICE, "nameserver")
    assert service is not None
    assert obj["status"]["nameserver"]["ip"] == service["spec"]["clusterIP"]
    assert FINALIZER in obj["metadata"]["finalizers"]
    assert await world.records() == {}


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


async def test_a_second_dnsconfig_is_refused_and_takes_nothing_away(world: World) -> None:
    await world.apply(dnsconfig())
    await running_nameserver(world, dnsconfig())
    before = await deployment(world)
    second = dnsconfig("second", image={"repo": "example.org/other"})
    await world.apply(second)
    await world.becomes(lambda: world.reason(second, READY), "MultipleDNSConfigsPresent")
    assert not await world.writes_when_left_alone()
    assert content(await deployment(world)) == content(before)
    assert "dns" in (await world.events(second))["MultipleDNSConfigsPresent"]
    assert await world.reason(dnsconfig(), READY) == "NameserverCreated"


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


UPSTREAM = {"repo": "tailscale/k8s-nameserver", "tag": "stable"}


async def test_a_nameserver_of_the_go_operator_is_run_and_what_is_lost_by_it_is_said(cluster: World) -> None:
    asked = dnsconfig(image=UPSTREAM)
    async with running_operator(cluster, nameserver_image="example.org/tsnameserver:v1"):
        await cluster.apply(asked)
        await running_nameserver(cluster, asked)
        (volume,) = (await deployment(cluster))["spec"]["template"]["spec"]["volumes"]
        assert volume["configMap"]["name"] == "dnsrecords"
        said = await cluster.condition(asked, "NameserverComplete")
        assert said is not None
        assert said.message.endswith("take spec.nameserver.image away to get example.org/tsnameserver:v1")
        assert not await cluster.writes_when_left_alone()
        await cluster.change(asked, {"spec": {"nameserver": {"image": None}}})
        await cluster.becomes(lambda: image(cluster), "example.org/tsnameserver:v1")
        await cluster.becomes(lambda: cluster.reason(asked, "NameserverComplete"), "")


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


class Obstacle(NamedTuple):
    """What keeps a nameserver from being made: an object in the way, or what is forbidden; and what is said of it."""

    cause: Object | Ban
    words: str

    async def put(self, world: World) -> None:
        """Put it in the way."""
        if isinstance(self.cause, Ban):
            world.sim.faults.forbid(self.cause)
        else:
            await world.apply(self.cause)

    async def remove(self, world: World) -> None:
        """Take it away."""
        if isinstance(self.cause, Ban):
            world.sim.faults.clear()
        else:
            await world.delete(self.cause)


ADDRESS = "10.96.4.3"


OBSTACLES = {
    "taken address": Obstacle(backend("taker", clusterIP=ADDRESS), "provided IP is already allocated"),
}
FORBIDDEN = Obstacle(
    Ban("deployments", NAMESPACE, "create"),
    'cannot create resource "deployments" in API group "apps" in the namespace "tailscale"',
)


@pytest.mark.parametrize(
    "case",
    [
        # On a real API server the operator's rights stay as they are.
        pytest.param(FORBIDDEN, id="forbidden", marks=pytest.mark.simulated),
        *(pytest.param(case, id=name) for name, case in OBSTACLES.items()),
    ],
)
async def test_a_nameserver_that_cannot_be_made_is_told_of_until_it_can(world: World, case: Obstacle) -> None:
    asked = dnsconfig(service={"clusterIP": ADDRESS})
    await case.put(world)
    await world.apply(asked)
    await world.becomes(lambda: world.reason(asked, READY), "NameserverCreationFailed")
    told = await world.condition(asked, READY)
    assert told is not None
    assert (told.status, case.words in told.message) == ("False", True)
    assert ("Warning", told.reason, told.message) in await events(world, asked)
    assert "nameserver" not in (await world.look(asked))["status"]
    await case.remove(world)
    assert (await running_nameserver(world, asked))["status"]["nameserver"] == {"ip": ADDRESS}
    assert await world.condition(asked, READY) == Condition("True", "NameserverCreated", "NameserverCreated")
    assert not await world.writes_when_left_alone()


async def events(world: World, obj: Object) -> list[tuple[str, str, str]]:
    """Return types, reasons and messages of the Events on *obj*."""
    found = (await world.api.list(EVENT)).items
    ours = [event for event in found if event["involvedObject"]["name"] == key_of(obj).name]
    return [(event["type"], event["reason"], event["message"]) for event in ours]


def content(obj: Object | None) -> Object:
    """Return what was meant of an object: no status, no versions, no serial of records."""
    assert obj is not None
    metadata = {name: obj["metadata"].get(name) for name in ("labels", "ownerReferences")}
    records = (obj.get("data") or {}).get("records.json", "").partition('"serial"')[0]
    return {"metadata": metadata, "records": records, **{name: obj.get(name) for name in ("spec", "rules")}}
