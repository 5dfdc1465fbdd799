"""DNSConfigs on a cluster: their nameserver, and the answers of the cluster's DNS, here a server on loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from clustersim.faults import Failure
from clustersim.furniture import COREFILE
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from dnslib import QTYPE, RCODE, RR, SOA, A, DNSRecord
from prometheus_client import CollectorRegistry
from tsnameserver.answer import answer
from tsnameserver.compiler import build_zone
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, Records
from tsnameserver.zone import ZoneSettings
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
from tsoperator.dns.canary import CANARY_PREFIX
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS
from tsoperator.dns.probe.answers import Reply
from tsoperator.dns.probe.asking import AskServer, Query, ask
from tsoperator.dns.probe.prober import VERDICT, DNSProber, ProbePace
from tsoperator.reconcilers.dnsconfig.reconciler import dnsconfigs
from tsoperator.reconcilers.dnsrecords.reconciler import dnsrecords
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.manager import Manager
from tsoperator.runtime.workqueue import Backoff
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.cluster import running
from tests.support.dnsserver import DNSServer, Respond, dns_server, replying
from tests.support.hosting import QUIET, no_hosting
from tests.support.manifests import FQDN, backend, dnsconfig, egress
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, Condition, World, running_operator
from tests.support.tailnets import applier

NAMESERVER_READY, DNS_READY = "NameserverReady", "ClusterDNSReady"
COREDNS: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "coredns"}}
CHILDREN = {
    **dict.fromkeys((SERVICEACCOUNT, ROLE, ROLEBINDING, DEPLOYMENT, SERVICE), "nameserver"),
    CONFIGMAP: "dnsrecords",
}
ADDRESS = "10.96.4.3"
PACE = ProbePace(
    steady=Backoff(first=0.05, cap=0.5), backoff=Backoff(first=0.05, cap=0.1), rest=0.05, timeout=0.3, direct=0.3
)


async def running_nameserver(world: World, obj: Object) -> Object:
    """Wait until the nameserver of *obj* is complete and the operator has settled, and return the DNSConfig."""

    async def missing() -> list[str]:
        return [str(kind) for kind, name in CHILDREN.items() if await world.find(kind, name) is None]

    await world.becomes(lambda: world.reason(obj, NAMESERVER_READY), "NameserverCreated")
    await world.becomes(missing, [])
    await world.settled()
    return await world.look(obj)


async def test_the_second_dnsconfig_takes_over_when_the_first_dnsconfig_is_deleted(world: World) -> None:
    second = dnsconfig("second")
    await world.apply(dnsconfig(), egress())
    await running_nameserver(world, dnsconfig())
    await world.apply(second)
    await world.becomes(lambda: world.reason(second, NAMESERVER_READY), "MultipleDNSConfigsPresent")
    await world.delete(dnsconfig())
    await world.eventually(lambda: world.gone(dnsconfig()))
    await running_nameserver(world, second)

    async def served() -> list[str]:
        return list(await world.records())

    await world.becomes(served, [FQDN])
    assert not await world.writes_when_left_alone()


async def test_a_dnsconfig_reports_that_its_nameservers_address_is_taken_until_the_address_is_free(
    world: World,
) -> None:
    asked, taker = dnsconfig(service={"clusterIP": ADDRESS}), backend("taker", clusterIP=ADDRESS)
    await world.apply(taker, asked)
    await world.becomes(lambda: world.reason(asked, NAMESERVER_READY), "NameserverCreationFailed")
    told = await world.condition(asked, NAMESERVER_READY)
    assert told is not None
    assert (told.status, "provided IP is already allocated" in told.message) == ("False", True)
    assert (await world.events(asked))[told.reason] == told.message
    assert "nameserver" not in (await world.look(asked))["status"]
    await world.delete(taker)
    assert (await running_nameserver(world, asked))["status"]["nameserver"] == {"ip": ADDRESS}
    words = f"the nameserver answers at {ADDRESS}"
    assert await world.condition(asked, NAMESERVER_READY) == Condition("True", "NameserverCreated", words)
    assert (await world.events(asked))["NameserverCreated"] == words
    assert not await world.writes_when_left_alone()


@asynccontextmanager
async def reconciling(world: World, ask: AskServer = ask, address: str = "") -> AsyncIterator[None]:
    """Run the reconciler of DNSConfigs, which asks DNS servers by *ask*, until the end of the block.

    With an *address*, the reconciler of records runs as well, and the server at this address is the cluster's DNS.
    """
    cache, tailnets, prober = Cache(sources(NAMESPACE)), Tailnets([]), DNSProber(ask, PACE)
    writer, chosen = (
        applier(world.api, cache, tailnets),
        settings(manage_cluster_dns=True, cluster_dns=(address,) if address else ()),
    )
    kinds: list[Kind[Any]] = [dnsconfigs(cache, world.api, prober, chosen)]
    kinds += [dnsrecords(cache, chosen, no_hosting(cache, chosen))] if address else []
    both = [KindReconciler(kind, cache, writer) for kind in kinds]
    metrics = ControllerMetrics(CollectorRegistry())
    manager = Manager(cache, both, metrics, feeds={VERDICT: prober.feed, SUFFIXES: tailnets, **QUIET})
    async with running(manager.run(world.api, None, beside=[prober.run])):
        yield


async def test_a_dnsconfig_reports_names_that_are_left_out_until_there_is_room_for_them(cluster: World) -> None:
    async def incomplete() -> str:
        return await cluster.reason(dnsconfig(), "RecordsComplete")

    async with running_operator(cluster):
        await cluster.apply(dnsconfig())
        await running_nameserver(cluster, dnsconfig())
    note = {"metadata": {"annotations": {"tailscale.com/records-left-out": "12"}}}
    await cluster.api.patch(CONFIGMAP, Key(NAMESPACE, "dnsrecords"), note)
    async with reconciling(cluster, cluster.ask):
        await cluster.becomes(incomplete, "TooManyNames")
    assert await cluster.reason(dnsconfig(), NAMESERVER_READY) == "NameserverCreated"
    async with running_operator(cluster):
        await cluster.becomes(incomplete, "")


async def test_a_change_of_openshifts_dns_causes_a_reconcile_even_without_a_dnsconfig(cluster: World) -> None:
    kind = dnsconfigs(Cache(sources(NAMESPACE)), cluster.api, DNSProber(ask), settings())
    assert [*kind.watches[OPENSHIFT_DNS]({})] == [Key("", "")]


@dataclass(frozen=True, slots=True)
class Servers:
    """The cluster's DNS and the nameserver.

    The cluster's DNS gets the queries to its own address, and the nameserver all other queries.
    """

    cluster: DNSServer
    nameserver: DNSServer

    async def ask(self, query: Query) -> Reply:
        is_of_cluster = query.server == self.cluster.address
        return await ask(query if is_of_cluster else replace(query, server=self.nameserver.address))

    def forward(self, query: bytes, transport: str) -> bytes | None:
        return self.nameserver.answer(query, transport)


@asynccontextmanager
async def asked(world: World) -> AsyncIterator[Servers]:
    """Run the reconcilers of DNSConfigs and of records, and yield the two DNS servers that the reconcilers ask."""

    def respond(query: bytes, transport: str) -> bytes | None:
        configmap = world.store.find(SIM_CONFIGMAP, NAMESPACE, CONFIGMAP_NAME)
        records = Records.model_validate_json(configmap["data"][RECORDS_KEY]) if configmap else Records()
        return answer(query, build_zone(records, ZoneSettings()), stream=transport == "tcp")

    async with dns_server(respond) as nameserver, dns_server(nameserver.answer) as cluster:
        servers = Servers(cluster, nameserver)
        async with reconciling(world, servers.ask, cluster.address):
            yield servers


def saying(rcode: int, *records: RR, authority: RR | None = None) -> Respond:
    def change(response: DNSRecord) -> None:
        response.header.rcode = rcode
        response.add_answer(*records)
        response.add_auth(*([authority] if authority else []))

    return replying(change)


def denying(*names: str) -> Respond:
    """Return a responder that answers NXDOMAIN. Its SOA record has *names* of a server and a mailbox."""
    return saying(RCODE.NXDOMAIN, authority=RR("ts.net", QTYPE.SOA, rdata=SOA(*names, (4000000000, 1, 2, 3, 5)), ttl=5))


THEIRS = denying("ns.example.org", "admin.example.org")
OURS = denying("nameserver.tailscale.svc.cluster.local", "hostmaster.ts.net")
ELSEWHERE = saying(RCODE.NOERROR, RR("x.ts.net", QTYPE.A, rdata=A("192.0.2.1")))
FAILING = saying(RCODE.SERVFAIL)


def with_old_answers(servers: Servers) -> Respond:
    """Return a responder that denies the canary, as a cache does that was asked before the canary existed.

    To every other query, it gives the answer of the nameserver in *servers*.
    """

    def respond(query: bytes, transport: str) -> bytes | None:
        first = str(DNSRecord.parse(query).q.qname)
        return OURS(query, transport) if first.startswith(CANARY_PREFIX) else servers.forward(query, transport)

    return respond


def without_tcp(servers: Servers) -> Respond:
    return lambda query, transport: servers.forward(query, transport) if transport == "udp" else None


FAULTS: dict[str, Callable[[Servers], Respond]] = {
    "NotForwarded": lambda _: THEIRS,
    "WrongAddress": lambda _: ELSEWHERE,
    "CachedNegativeAnswer": with_old_answers,
    "ServerFailure": lambda _: FAILING,
    "QuestionRefused": lambda _: saying(RCODE.REFUSED),
    "NoAnswer": lambda _: lambda *_: None,
    "NoAnswerOverTCP": without_tcp,
}


async def said(world: World, reason: str) -> None:
    """Wait until the condition ClusterDNSReady has *reason*. It must be True exactly if the reason is NamesResolve."""
    status = "True" if reason == "NamesResolve" else "False"

    async def found() -> tuple[str, str] | None:
        told = await world.condition(dnsconfig(), DNS_READY)
        return told[:2] if told else None

    await world.becomes(found, (status, reason))


async def forward_to(world: World, server: str) -> None:
    text = f"ts.net {{\n forward . {server}\n}}\n"
    await world.api.patch(CONFIGMAP, Key("kube-system", "coredns"), {"data": {"Corefile": text}})


@pytest.mark.parametrize("reason", FAULTS)
async def test_the_condition_names_a_fault_of_the_clusters_dns_until_the_fault_is_repaired(
    cluster: World, reason: str
) -> None:
    await forward_to(cluster, "192.0.2.53")
    async with asked(cluster) as servers:
        servers.cluster.respond = FAULTS[reason](servers)
        await cluster.apply(dnsconfig())
        await said(cluster, reason)
        assert not await cluster.writes_when_left_alone()
        servers.cluster.respond = servers.forward
        await said(cluster, "NamesResolve")
        assert not await cluster.writes_when_left_alone()


async def test_the_operator_does_not_ask_the_clusters_dns_while_the_nameserver_lacks_the_records(
    cluster: World,
) -> None:
    async with asked(cluster) as servers:
        servers.nameserver.respond = OURS
        await cluster.apply(dnsconfig())
        await said(cluster, "RecordsMissing")
        assert servers.cluster.asked == []


@pytest.mark.parametrize("respond", [OURS, FAILING, lambda *_: None])
async def test_the_operator_writes_no_stub_domain_until_the_nameserver_gives_the_right_answer(
    cluster: World, respond: Respond
) -> None:
    async with asked(cluster) as servers:
        servers.nameserver.respond, right = respond, servers.nameserver.respond
        await cluster.apply({**dnsconfig(), "spec": {"nameserver": {}, "clusterDNS": {"mode": "Managed"}}})

        async def reasons() -> list[str]:
            return [await cluster.reason(dnsconfig(), each) for each in (NAMESERVER_READY, "ClusterDNSConfigured")]

        await cluster.becomes(reasons, ["NameserverPending"] * 2)
        await cluster.settled()
        assert (await cluster.look(COREDNS))["data"] == {"Corefile": COREFILE}
        servers.nameserver.respond = right
        await cluster.becomes(reasons, ["NameserverCreated", "StubDomainWritten"])


async def test_the_condition_says_that_a_zone_is_not_forwarded_or_is_forwarded_in_a_loop(cluster: World) -> None:
    async with asked(cluster) as servers:
        servers.cluster.respond = FAILING
        await cluster.apply(dnsconfig())
        await said(cluster, "NotForwarded")
        await forward_to(cluster, servers.cluster.address)
        await said(cluster, "ForwardingLoop")


@pytest.mark.simulated
async def test_the_condition_names_a_fault_of_the_clusters_dns_even_if_a_write_is_refused(cluster: World) -> None:
    async with asked(cluster) as servers:
        await cluster.apply(dnsconfig())
        await said(cluster, "NamesResolve")
        cluster.sim.faults.fail(Failure(403, times=10**6, verb="update", plural="deployments"))
        await cluster.change(dnsconfig(), {"spec": {"nameserver": {"replicas": 2}}})
        await cluster.becomes(lambda: cluster.reason(dnsconfig(), NAMESERVER_READY), "NameserverCreationFailed")
        servers.cluster.respond = FAILING
        await said(cluster, "NotForwarded")


async def test_a_new_leader_writes_no_status_before_it_has_asked_the_clusters_dns(cluster: World) -> None:
    async def lead() -> None:
        async with asked(cluster):
            await cluster.settled()

    await cluster.apply(dnsconfig())
    async with asked(cluster):
        await said(cluster, "NamesResolve")
        await cluster.settled()
    assert not await cluster.writes_during(lead())


@pytest.mark.simulated  # the CRD's schema refuses such a DNSConfig, unless the object is older than the schema
async def test_the_records_are_kept_up_to_date_while_the_dnsconfig_is_invalid(world: World) -> None:
    await world.apply(dnsconfig())
    await running_nameserver(world, dnsconfig())
    await world.change(dnsconfig(), {"spec": {"nameserver": {"replicas": "many"}}})
    await world.apply(egress())
    await world.eventually(world.records)
