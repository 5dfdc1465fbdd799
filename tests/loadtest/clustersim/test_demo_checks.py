from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from clustersim.apiclient import ApiClient
from clustersim.demo_checks import Checks, Exposed, NotYet
from clustersim.objects import ENDPOINTSLICE, PROXYGROUP, SERVICE, STATEFULSET
from clustersim.sim import ClusterSim, cluster_sim
from dnslib import QTYPE, RR, DNSRecord

from tests.loadtest.clustersim.running import headless, statefulset, until
from tests.support.dnsserver import dns_server
from tests.support.manifests import FQDN, egress, proxy_group

DB = Exposed(SERVICE, "default", "db")
IN_GROUP = replace(DB, group="egress")


class World(NamedTuple):
    sim: ClusterSim
    checks: Checks
    wrong_answers: dict[str, frozenset[str]]


def in_cluster(sim: ClusterSim, version: str) -> frozenset[str]:
    """Return the addresses of the proxies in the EndpointSlices of one IP *version*."""
    slices = [item for item in sim.store.list(ENDPOINTSLICE, "tailscale") if item["addressType"] == version]
    return frozenset(ip for item in slices for endpoint in item["endpoints"] or () for ip in endpoint["addresses"])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Yield a cluster with a nameserver, whose answers are right by default.

    For a record type that is a key of `wrong_answers`, the nameserver answers with the addresses stored there.
    """
    wrong_answers: dict[str, frozenset[str]] = {}

    def respond(packet: bytes, _: str) -> bytes:
        query = DNSRecord.parse(packet)
        qtype = QTYPE[query.q.qtype]
        right = in_cluster(sim, {"A": "IPv4", "AAAA": "IPv6"}[qtype])
        reply = query.reply()
        for address in wrong_answers.get(qtype, right):
            reply.add_answer(*RR.fromZone(f"{FQDN} {qtype} {address}"))
        return bytes(reply.pack())

    async with cluster_sim() as sim, ApiClient(sim.api_url) as api, dns_server(respond) as dns:
        yield World(sim, Checks(api, dns.port), wrong_answers)


async def proxy(world: World, target: Exposed = DB) -> None:
    """Make the objects that the operator would make for *target*. The Pod of the proxy runs, but does nothing."""
    metadata: Any = {"name": "ts-db-abcde", "namespace": "tailscale", "labels": target.labels}
    pods = statefulset()
    pods["spec"]["template"]["metadata"]["labels"] |= target.labels
    spec: Any = headless()["spec"] | ({"clusterIP": ""} if target.group else {})
    world.sim.store.create(SERVICE, {"metadata": metadata, "spec": spec})
    world.sim.store.create(STATEFULSET, {**pods, "metadata": metadata})
    await until(world.sim.store, lambda: in_cluster(world.sim, "IPv4") and in_cluster(world.sim, "IPv6"))


async def test_the_demo_expects_that_a_name_resolves_only_to_a_ready_proxy(world: World) -> None:
    world.sim.store.create(SERVICE, egress())
    with pytest.raises(NotYet, match="has no ready proxy"):
        await world.checks.leads(DB)
    await proxy(world)
    assert await world.checks.leads(DB) == (FQDN, ("10.244.0.2", "2001:db8:244::2"))


async def test_the_demo_expects_that_a_name_in_an_egress_group_resolves_to_its_clusterip_service(world: World) -> None:
    world.sim.store.create(SERVICE, egress())
    with pytest.raises(NotYet, match="has no ready proxy"):
        await world.checks.leads(IN_GROUP)
    world.sim.store.create(PROXYGROUP, proxy_group("egress", replicas=2))
    await proxy(world, IN_GROUP)
    with pytest.raises(NotYet, match="not all of the 2 proxies of its group are ready"):
        await world.checks.leads(IN_GROUP)
    world.sim.store.merge(PROXYGROUP, "", "egress", {"spec": {"replicas": 1}})
    addresses = tuple(world.sim.store.get(SERVICE, "tailscale", "ts-db-abcde")["spec"]["clusterIPs"])
    world.wrong_answers.update(A=frozenset(addresses[:1]), AAAA=frozenset(addresses[1:]))
    assert await world.checks.leads(IN_GROUP) == (FQDN, addresses)


@pytest.mark.parametrize(("qtype", "address"), [("A", "192.0.2.1"), ("AAAA", "2001:db8::1")])
async def test_the_report_of_the_demo_shows_a_wrong_answer_and_the_right_one(
    world: World, qtype: str, address: str
) -> None:
    world.sim.store.create(SERVICE, egress())
    await proxy(world)
    world.wrong_answers[qtype] = frozenset({address})
    with pytest.raises(NotYet, match=f"{FQDN} {qtype} over UDP: NOERROR, {address}; the cluster has"):
        await world.checks.leads(DB)


async def test_the_demo_expects_that_an_egress_service_by_address_has_the_external_name_of_its_proxy(
    world: World,
) -> None:
    world.sim.store.create(SERVICE, egress(target="100.64.10.10"))
    await proxy(world)
    with pytest.raises(NotYet, match="its externalName is 'placeholder'"):
        await world.checks.leads(DB)


async def test_the_demo_reports_an_address_change_that_the_nameserver_does_not_follow(world: World) -> None:
    world.sim.store.create(SERVICE, egress())
    await proxy(world)
    world.wrong_answers["A"] = frozenset({"192.0.2.1"})
    with pytest.raises(NotYet, match=r"after the change: NOERROR, 192\.0\.2\.1"):
        await replace(world.checks, round_seconds=0.1).delays(DB, 1)
