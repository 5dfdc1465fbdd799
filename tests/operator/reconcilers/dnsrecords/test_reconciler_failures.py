"""Proxies that could not be looked at: their names come with the next try, although nothing changes again."""

from dataclasses import replace
from typing import Any

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from prometheus_client import CollectorRegistry
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, parse
from tsoperator.api.objects import ENDPOINTSLICE, SUFFIXES, Key, key_of
from tsoperator.desired.children import Owner
from tsoperator.reconcilers.dnsrecords.reconciler import DNSRecordsReconciler
from tsoperator.runtime.cache import Cache
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
