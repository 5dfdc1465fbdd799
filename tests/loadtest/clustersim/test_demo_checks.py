from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from clustersim.apiclient import ApiClient
from clustersim.demo_checks import Checks, Exposed, NotYet
from clustersim.objects import ENDPOINTSLICE, INGRESS, SERVICE, STATEFULSET
from clustersim.sim import ClusterSim, cluster_sim
from dnslib import QTYPE, RR, DNSRecord

from tests.loadtest.clustersim.dnsserver import dns_server
from tests.loadtest.clustersim.running import headless, statefulset, until

DB = Exposed(SERVICE, "default", "db")
WEB = Exposed(INGRESS, "default", "web")
NAME = "db.tail1234.ts.net"


class World(NamedTuple):
    sim: ClusterSim
    checks: Checks
    served: dict[str, frozenset[str]]


def in_cluster(sim: ClusterSim, version: str) -> frozenset[str]:
    """Return the addresses of the proxies."""
    slices = [item for item in sim.store.list(ENDPOINTSLICE, "tailscale") if item["addressType"] == version]
    return frozenset(ip for item in slices for endpoint in item["endpoints"] or () for ip in endpoint["addresses"])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Yield a cluster and a nameserver that is right but for what *served* says, by type."""
    served: dict[str, frozenset[str]] = {}

    def respond(query: DNSRecord) -> bytes:
        qtype = QTYPE[query.q.qtype]
        right = in_cluster(sim, {"A": "IPv4", "AAAA": "IPv6"}[qtype])
        reply = query.reply()
        for address in served.get(qtype, right):
            reply.add_answer(*RR.fromZone(f"{NAME} {qtype} {address}"))
        return bytes(reply.pack())

    async with cluster_sim() as sim, ApiClient(sim.api_url) as api, dns_server(respond) as port:
        yield World(sim, Checks(api, port), served)


def egress(world: World, annotation: str, value: str, external_name: str = "placeholder") -> None:
    metadata = {"name": "db", "namespace": "default", "annotations": {f"tailscale.com/{annotation}": value}}
    spec = {"type": "ExternalName", "externalName": external_name}
    world.sim.store.create(SERVICE, {"metadata": metadata, "spec": spec})


async def proxy(world: World, target: Exposed = DB) -> None:
    """Make what the operator makes for *target*, with a Pod that only runs."""
    metadata: Any = {"name": "ts-db-abcde", "namespace": "tailscale", "labels": target.labels}
    pods = statefulset()
    pods["spec"]["template"]["metadata"]["labels"] |= target.labels
    world.sim.store.create(SERVICE, {**headless(), "metadata": metadata})
    world.sim.store.create(STATEFULSET, {**pods, "metadata": metadata})
    await until(world.sim.store, lambda: in_cluster(world.sim, "IPv4") and in_cluster(world.sim, "IPv6"))


async def test_a_name_leads_to_the_addresses_of_its_proxy(world: World) -> None:
    egress(world, "tailnet-fqdn", NAME)
    await proxy(world)
    assert await world.checks.leads(DB) == (NAME, ("10.244.0.2", "2001:db8:244::2"))


async def test_without_a_ready_proxy_a_name_leads_nowhere(world: World) -> None:
    egress(world, "tailnet-fqdn", NAME)
    with pytest.raises(NotYet, match="has no ready proxy"):
        await world.checks.leads(DB)


@pytest.mark.parametrize(("qtype", "address"), [("A", "192.0.2.1"), ("AAAA", "2001:db8::1")])
async def test_a_wrong_answer_is_told_with_the_right_one(world: World, qtype: str, address: str) -> None:
    egress(world, "tailnet-fqdn", NAME)
    await proxy(world)
    world.served[qtype] = frozenset({address})
    with pytest.raises(NotYet, match=f"{NAME} {qtype} over UDP: NOERROR, {address}; the cluster has"):
        await world.checks.leads(DB)


async def test_an_ingress_goes_by_the_hostname_in_its_status(world: World) -> None:
    store = world.sim.store
    store.create(INGRESS, {"metadata": {"name": "web", "namespace": "default"}, "spec": {}})
    await proxy(world, WEB)
    with pytest.raises(NotYet, match="has no hostname in its status"):
        await world.checks.leads(WEB)
    status = {"loadBalancer": {"ingress": [{"hostname": NAME}]}}
    store.merge(INGRESS, "default", "web", {"status": status}, "status")
    assert (await world.checks.leads(WEB))[0] == NAME


async def test_an_egress_by_address_goes_by_its_external_name(world: World) -> None:
    egress(world, "tailnet-ip", "100.64.10.10")
    await proxy(world)
    with pytest.raises(NotYet, match="its externalName is 'placeholder'"):
        await world.checks.leads(DB)
    external = "ts-db-abcde.tailscale.svc.cluster.local"
    world.sim.store.merge(SERVICE, "default", "db", {"spec": {"externalName": external}})
    assert (await world.checks.leads(DB))[0] == external


async def test_every_move_of_a_proxy_is_timed(world: World) -> None:
    egress(world, "tailnet-fqdn", NAME)
    await proxy(world)
    before = in_cluster(world.sim, "IPv4")
    measured = await world.checks.delays(DB, 3)
    assert len(measured) == 3
    assert all(0 < seconds < 5 for seconds in measured)
    assert not before & in_cluster(world.sim, "IPv4")


async def test_a_move_that_is_not_answered_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustersim.demo_checks.ROUND_SECONDS", 0.1)
    egress(world, "tailnet-fqdn", NAME)
    await proxy(world)
    world.served["A"] = frozenset({"192.0.2.1"})
    with pytest.raises(NotYet, match=r"after the change: NOERROR, 192\.0\.2\.1"):
        await world.checks.delays(DB, 1)
