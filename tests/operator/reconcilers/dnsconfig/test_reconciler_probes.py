"""What a DNSConfig says of the cluster's DNS, which is a server on loopback here. The nameserver is the real one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from clustersim.faults import Failure
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from dnslib import QTYPE, RCODE, RR, SOA, A, DNSRecord
from prometheus_client import CollectorRegistry
from tsnameserver.answer import answer
from tsnameserver.compiler import build_zone
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, Records
from tsnameserver.zone import ZoneSettings
from tsoperator.api.objects import CONFIGMAP, SUFFIXES, Key, Resource
from tsoperator.desired.canary import CANARY_PREFIX
from tsoperator.reconcilers.dnsconfig.answers import Reply
from tsoperator.reconcilers.dnsconfig.asking import Query, ask
from tsoperator.reconcilers.dnsconfig.probes import VERDICT, Pace, Prober
from tsoperator.reconcilers.dnsconfig.reconciler import DNSConfigReconciler
from tsoperator.reconcilers.dnsrecords.reconciler import DNSRecordsReconciler
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.controller import ControllerMetrics
from tsoperator.runtime.manager import Feed, Manager, Reconciler
from tsoperator.runtime.workqueue import Backoff
from tsoperator.sources import sources
from tsoperator.tailnet.tailnet import Tailnets

from tests.support.cluster import running
from tests.support.dnsserver import DNSServer, Respond, dns_server
from tests.support.manifests import dnsconfig
from tests.support.objects import settings
from tests.support.operator import NAMESPACE, Condition, World
from tests.support.tailnets import applier

PACE = Pace(
    steady=Backoff(first=0.05, cap=0.5), backoff=Backoff(first=0.05, cap=0.1), rest=0.05, timeout=0.3, direct=0.3
)
READY = "ClusterDNSReady"


@dataclass(frozen=True, slots=True)
class Servers:
    """The cluster's DNS, and the nameserver: *address* leads there, as the cluster IP of its Service does."""

    cluster: DNSServer
    nameserver: DNSServer

    async def ask(self, query: Query) -> Reply:
        """Ask one of the two."""
        is_of_cluster = query.server == self.cluster.address
        return await ask(query if is_of_cluster else replace(query, server=self.nameserver.address))

    def forward(self, query: bytes, transport: str) -> bytes | None:
        """Answer as the nameserver does."""
        return self.nameserver.answer(query, transport)


def serving(world: World) -> Respond:
    """Return what answers as a nameserver with the records of the cluster does."""

    def respond(query: bytes, transport: str) -> bytes | None:
        configmap = world.store.find(SIM_CONFIGMAP, NAMESPACE, CONFIGMAP_NAME)
        records = Records.model_validate_json(configmap["data"][RECORDS_KEY]) if configmap else Records()
        return answer(query, build_zone(records, ZoneSettings()), stream=transport == "tcp")

    return respond


@asynccontextmanager
async def asked(world: World) -> AsyncIterator[Servers]:
    """Run the reconcilers of DNSConfigs and of records, and the servers that they ask."""
    cache = Cache(sources(NAMESPACE))
    tailnets = Tailnets([])
    writer = applier(world.api, cache, tailnets)
    async with dns_server(serving(world)) as nameserver, dns_server(nameserver.answer) as cluster:
        servers = Servers(cluster, nameserver)
        prober = Prober(servers.ask, PACE)
        chosen = settings(cluster_dns=(cluster.address,))
        both: list[Reconciler] = [
            DNSConfigReconciler(cache, writer, prober, chosen),
            DNSRecordsReconciler(cache, writer, chosen),
        ]
        feeds: dict[Resource, Feed] = {VERDICT: prober, SUFFIXES: tailnets}
        manager = Manager(cache, both, ControllerMetrics(CollectorRegistry()), feeds=feeds)
        async with running(manager.run(world.api, None, beside=[prober.run])):
            yield servers


def saying(rcode: int, *records: RR, authority: RR | None = None) -> Respond:
    """Return what answers every query like this."""

    def respond(query: bytes, _transport: str) -> bytes:
        response = DNSRecord.parse(query).reply()
        response.header.rcode = rcode
        response.add_answer(*records)
        response.add_auth(*([authority] if authority else []))
        packed: bytes = response.pack()
        return packed

    return respond


def soa(zone: str, mname: str, rname: str, serial: int) -> RR:
    return RR(zone, QTYPE.SOA, rdata=SOA(mname, rname, (serial, 1, 2, 3, 5)), ttl=5)


PUBLIC = soa("ts.net", "ns.example.org", "admin.example.org", 1)
ANOTHER = soa("ts.net", "nameserver.tailscale.svc.cluster.local", "hostmaster.ts.net", 4000000000)


def with_old_answers(servers: Servers) -> Respond:
    """Return a cache that has kept the answers from before there was a canary."""
    denies = saying(RCODE.NXDOMAIN, authority=ANOTHER)

    def respond(query: bytes, transport: str) -> bytes | None:
        first = str(DNSRecord.parse(query).q.qname)
        return denies(query, transport) if first.startswith(CANARY_PREFIX) else servers.forward(query, transport)

    return respond


class Fault(NamedTuple):
    reason: str
    respond: Callable[[Servers], Respond]


def always(respond: Respond) -> Callable[[Servers], Respond]:
    return lambda servers: respond


FAULTS = [
    Fault("NotForwarded", always(saying(RCODE.NXDOMAIN, authority=PUBLIC))),
    Fault("WrongAddress", always(saying(RCODE.NOERROR, RR("x.ts.net", QTYPE.A, rdata=A("192.0.2.1"))))),
    Fault("WrongAddress", always(saying(RCODE.NXDOMAIN, authority=ANOTHER))),
    Fault("CachedNegativeAnswer", with_old_answers),
    Fault("ServerFailure", always(saying(RCODE.SERVFAIL))),
    Fault("QuestionRefused", always(saying(RCODE.REFUSED))),
    Fault("NoAnswer", always(lambda *_: None)),
    Fault(
        "NoAnswerOverTCP",
        lambda servers: lambda query, transport: servers.forward(query, transport) if transport == "udp" else None,
    ),
]


@pytest.mark.parametrize("case", FAULTS, ids=[f"{number} {case.reason}" for number, case in enumerate(FAULTS)])
async def test_a_fault_is_told_until_it_is_mended(cluster: World, case: Fault) -> None:
    await forward_to(cluster, "192.0.2.53")
    async with asked(cluster) as servers:
        servers.cluster.respond = case.respond(servers)
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: cluster.reason(dnsconfig(), READY), case.reason)
        assert not await cluster.writes_when_left_alone()
        servers.cluster.respond = servers.forward
        await cluster.becomes(lambda: said(cluster), ("True", "NamesResolve"))
        assert not await cluster.writes_when_left_alone()


async def forward_to(world: World, server: str) -> None:
    """Let the Corefile say that *server* is asked for ts.net."""
    text = f"ts.net {{\n forward . {server}\n}}\n"
    await world.api.patch(CONFIGMAP, Key("kube-system", "coredns"), {"data": {"Corefile": text}})


async def said(world: World) -> tuple[str, str] | None:
    """Return status and reason of the condition."""
    found: Condition | None = await world.condition(dnsconfig(), READY)
    return (found.status, found.reason) if found else None


async def test_records_that_do_not_arrive_are_told_and_the_cluster_is_spared(cluster: World) -> None:
    async with asked(cluster) as servers:
        servers.nameserver.respond = saying(RCODE.NXDOMAIN, authority=ANOTHER)
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: said(cluster), ("False", "RecordsMissing"))
        assert servers.cluster.asked == []


async def test_a_configuration_that_leads_nowhere_or_back_is_told(cluster: World) -> None:
    async with asked(cluster) as servers:
        servers.cluster.respond = saying(RCODE.SERVFAIL)
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: said(cluster), ("False", "NotForwarded"))
        await forward_to(cluster, servers.cluster.address)
        await cluster.becomes(lambda: said(cluster), ("False", "ForwardingLoop"))


@pytest.mark.simulated
async def test_a_fault_is_told_while_the_dnsconfig_can_not_be_carried_out(cluster: World) -> None:
    async with asked(cluster) as servers:
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: said(cluster), ("True", "NamesResolve"))
        cluster.sim.faults.fail(Failure(403, times=10**6, verb="update", plural="deployments"))
        await cluster.change(dnsconfig(), {"spec": {"nameserver": {"replicas": 2}}})
        await cluster.becomes(lambda: cluster.reason(dnsconfig(), "NameserverReady"), "NameserverCreationFailed")
        servers.cluster.respond = saying(RCODE.SERVFAIL)
        await cluster.becomes(lambda: said(cluster), ("False", "NotForwarded"))


async def test_a_new_leader_says_nothing_new_before_it_has_asked(cluster: World) -> None:
    async with asked(cluster):
        await cluster.apply(dnsconfig())
        await cluster.becomes(lambda: said(cluster), ("True", "NamesResolve"))
        await cluster.settled()

    async def lead() -> None:
        async with asked(cluster):
            await cluster.settled()

    assert not await cluster.writes_during(lead())
