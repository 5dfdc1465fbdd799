"""Records that could not be looked at, or that change while others are written: nothing of that is lost."""

from dataclasses import replace
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from prometheus_client import CollectorRegistry
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, parse
from tsoperator.api.objects import ENDPOINTSLICE, SUFFIXES, Key, Object, Resource, key_of
from tsoperator.desired.children import Owner
from tsoperator.desired.zones import Suffixes
from tsoperator.kube.client import USER_AGENT
from tsoperator.reconcilers.dnsrecords.reconciler import DNSRecordsReconciler
from tsoperator.runtime.cache import Cache, Listener
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.manager import Manager
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.cluster import kube_client, running, until
from tests.support.manifests import FQDN, dnsconfig, egress
from tests.support.objects import OPERATOR_NAMESPACE, endpoint, endpoint_slice, headless, settings
from tests.support.tailnets import applier

OWNER = Owner("svc", key_of(egress()))
RECORDS = Key(OPERATOR_NAMESPACE, CONFIGMAP_NAME)


class Brittle(dict[str, Any]):
    """An EndpointSlice whose endpoints can't be read at the first time."""

    reads = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.reads += name == "endpoints"
        if self.reads == 1:
            raise RuntimeError("unreadable")
        return super().get(name, default)


def put_proxy(sim: ClusterSim) -> None:
    """Create a DNSConfig, an egress Service, and what its proxy consists of for the records."""
    found = endpoint_slice("ts-db", endpoint("192.0.2.7"))
    found["metadata"]["labels"] |= OWNER.labels
    sim.store.create(kinds.DNSCONFIG, dnsconfig())
    sim.store.create(kinds.SERVICE, egress())
    sim.store.create(kinds.SERVICE, headless(OWNER, "uid", "ts-db", FQDN))
    sim.store.create(kinds.ENDPOINTSLICE, {**found, "addressType": "IPv4", "ports": []})


async def test_a_proxy_that_could_not_be_looked_at_is_looked_at_again(caplog: pytest.LogCaptureFixture) -> None:
    slims = {ENDPOINTSLICE: Brittle}
    watched = sources(OPERATOR_NAMESPACE)
    cache = Cache([replace(each, slim=slims.get(each.selection.resource, each.slim)) for each in watched])
    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        put_proxy(sim)
        tailnets = Tailnets([])
        reconciler = DNSRecordsReconciler(cache, applier(client, cache, tailnets), settings())
        manager = Manager(cache, [reconciler], ControllerMetrics(CollectorRegistry()), feeds={SUFFIXES: tailnets})
        async with running(manager.run(client, None)):
            await until(lambda: sim.store.find(kinds.CONFIGMAP, *RECORDS))
        document = sim.store.get(kinds.CONFIGMAP, *RECORDS)["data"][RECORDS_KEY]
    assert "unreadable" in caplog.text
    assert parse(document).ip4 == {FQDN: ["192.0.2.7"]}


class Known:
    """The known suffixes, of whose changes the test tells."""

    def __init__(self) -> None:
        self.suffixes = Suffixes()
        self.listeners: list[Listener] = []

    def __call__(self) -> Suffixes:
        return self.suffixes

    def listen(self, _: Resource, listener: Listener) -> None:
        self.listeners.append(listener)

    def all(self, _: Resource) -> list[Object]:
        return []

    def tell(self, suffix: str) -> None:
        """Let *suffix* be known from now on."""
        self.suffixes = Suffixes((suffix,))
        for listener in self.listeners:
            listener(None, {"metadata": {"name": ""}})


async def test_a_zone_that_is_known_while_the_records_are_written_is_written_next() -> None:
    cache, known = Cache(sources(OPERATOR_NAMESPACE)), Known()
    async with cluster_sim(SimOptions(controllers=False)) as sim, kube_client(sim.api_url) as client:
        sim.store.create(kinds.DNSCONFIG, dnsconfig())
        reconciler = DNSRecordsReconciler(cache, applier(client, cache, Tailnets([])), settings(), suffixes=known)
        manager = Manager(cache, [reconciler], ControllerMetrics(CollectorRegistry()), feeds={SUFFIXES: known})
        sim.faults.latency = 0.1  # a write is counted before it waits that long, and is carried out after it
        async with running(manager.run(client, None)):
            await until(lambda: sim.writes[USER_AGENT, "create", "configmaps"])
            known.tell("tail.example.org")
            await until(lambda: zones(sim) == ["ts.net", "tail.example.org"])


def zones(sim: ClusterSim) -> list[str]:
    """Return the zones in the ConfigMap of records; none without one."""
    found = sim.store.find(kinds.CONFIGMAP, *RECORDS)
    return parse(found["data"][RECORDS_KEY]).zones if found else []
