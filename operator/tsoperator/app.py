"""The composition root: every reconciler, and the objects that they share."""

import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry, Counter, GCCollector, PlatformCollector, ProcessCollector
from tsnameserver import __version__

from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.names import FINALIZER, LEASE_NAME
from tsoperator.api.objects import (
    DEVICE,
    IDENTITY,
    OWN_KINDS,
    SERVICE,
    SUFFIXES,
    TAILNET,
    TAILSCALE_SERVICE,
    Key,
    has_finalizer,
    key_of,
)
from tsoperator.dns.probe import prober as dnsprobes
from tsoperator.dns.probe.asking import ask
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import is_in_cluster, load_configuration
from tsoperator.kube.errors import KubeError
from tsoperator.reconcilers.connector.reconciler import connectors
from tsoperator.reconcilers.dnsconfig.reconciler import dnsconfigs
from tsoperator.reconcilers.dnsrecords.reconciler import dnsrecords
from tsoperator.reconcilers.egresspod.plan import HealthAnswer
from tsoperator.reconcilers.egresspod.probes import GateProber, ask_by_http, health_session
from tsoperator.reconcilers.egresspod.reconciler import egresspods
from tsoperator.reconcilers.gauges import GroupGauges, RelayGauges, ServiceGauges, certificate_expiries, count_proxies
from tsoperator.reconcilers.hosting import HostingView, HostingWorld
from tsoperator.reconcilers.ingress.reconciler import ingresses
from tsoperator.reconcilers.mounts.reconciler import mounts
from tsoperator.reconcilers.operatordevice.ask import ask_of
from tsoperator.reconcilers.operatordevice.reconciler import operatordevices
from tsoperator.reconcilers.owndnsconfig.reconciler import owndnsconfigs
from tsoperator.reconcilers.peerrelay.addresses import ADDRESSES, HostAddresses, Resolve, resolve_ipv4
from tsoperator.reconcilers.peerrelay.reconciler import peerrelays
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.reconcilers.proxyclass.cluster import NodePorts
from tsoperator.reconcilers.proxyclass.reconciler import proxyclasses
from tsoperator.reconcilers.proxygroup.reconciler import proxygroups
from tsoperator.reconcilers.proxygrouppolicy.reconciler import proxygrouppolicies
from tsoperator.reconcilers.recorder.reconciler import recorders
from tsoperator.reconcilers.service.ask import BY_DESTINATION
from tsoperator.reconcilers.service.reconciler import services
from tsoperator.reconcilers.tailnet.reconciler import tailnet_kind
from tsoperator.reconcilers.tailscaleservice.reconciler import tailscaleservices
from tsoperator.runtime import predecessor
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache, CacheMetrics
from tsoperator.runtime.clock import utc_now
from tsoperator.runtime.controller import ControllerMetrics, Policy
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.feeds import START, StartFeed
from tsoperator.runtime.health import Count, HealthServer
from tsoperator.runtime.holder import Process
from tsoperator.runtime.kind import Kind, KindReconciler
from tsoperator.runtime.leader import LeaderElector
from tsoperator.runtime.manager import Manager, Reconciler
from tsoperator.runtime.plan import Errand, FindNodePorts
from tsoperator.runtime.unserved import UnservedKinds
from tsoperator.runtime.workqueue import Backoff
from tsoperator.settings import Settings
from tsoperator.sources import sources
from tsoperator.status.look import Knowledge, ServedDevice
from tsoperator.status.server import StatusServer
from tsoperator.status.view import StatusView
from tsoperator.tailnet.devices import count_devices
from tsoperator.tailnet.factory import Connect, TailnetFactory
from tsoperator.tailnet.identity import KnownIdentity
from tsoperator.tailnet.known import KnownTailnet
from tsoperator.tailnet.preflight import Preflight, PreflightMetrics, own_pod
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.suffixes import KnownSuffixes
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import (
    BadRequest,
    ControlError,
    CredentialsUnreadable,
    Forbidden,
    NameInUse,
    NotSupported,
    Unauthorized,
)
from tsoperator.tsclient.oauth import ClientCredentials, CredentialFiles, IdentityFile

log = logging.getLogger("tsoperator")

_REFUSED = Backoff(first=1, cap=300)
_BAD_CREDENTIALS = Backoff(first=1, cap=60)
PATIENCE: Mapping[type[Exception], Backoff] = {
    NameInUse: Backoff(first=5, cap=30),  # a device keeps its name for seconds after its proxy has ended
    BadRequest: _REFUSED,
    Forbidden: _REFUSED,
    Unauthorized: _BAD_CREDENTIALS,
    CredentialsUnreadable: _BAD_CREDENTIALS,
    NotSupported: Backoff(first=60, cap=24 * 3600),
}
"""The back-offs after errors that a retry cannot fix, by the type of the error.

The user has to act, so we retry rarely; an edit of the object triggers a retry at once, and so does a check that finds
a change in the setup of the tailnet.

After a refusal, the first retries come within seconds, because somebody may be editing the policy at this moment. A
call that the server does not have is first retried after a minute. It can succeed if the server is replaced, or if the
answer came from a web proxy in front of a server that was still starting.
"""

_WORKERS = 16  # how many keys of one kind are reconciled at once; many of them wait for an answer of a server


async def run(
    settings: Settings,
    now: Callable[[], datetime] = utc_now,
    dns_prober: dnsprobes.DNSProber | None = None,
    resolve: Resolve = resolve_ipv4,
) -> None:
    """Run the operator until cancelled.

    *now* returns the time of the wall clock. *dns_prober* asks the nameserver and the cluster's DNS; None means a new
    prober. *resolve* looks up the hostnames of load balancers. Raises KubeError and ListenError, and LeadershipLost in
    an exception group.
    """
    configuration = await load_configuration(settings.kubeconfig)
    registry = _registry()
    to_kubernetes, to_control_server = _request_observers(registry)
    async with (
        KubeClient(
            configuration, reload=lambda: load_configuration(settings.kubeconfig), observe=to_kubernetes
        ) as client,
        aiohttp.ClientSession() as session,
        health_session(in_cluster=is_in_cluster(settings.kubeconfig)) as to_proxies,
    ):
        links = Links(
            client,
            lambda url, credentials, secret: TailnetClient(
                session, url, credentials, observe=to_control_server, secret=secret
            ),
            GateProber(partial(ask_by_http, to_proxies), _probe_observer(registry)),
            dns_prober or dnsprobes.DNSProber(ask),
            HostAddresses(resolve),
        )
        parts = _parts(settings, links, now)
        _register_gauges(registry, parts)
        manager = _manager(parts, registry)
        parts.tailnets.listen_to_findings(manager.retry_refused)
        elector = await _elector(client, settings) if settings.leader_election else None
        status = _status_server(parts, lambda: elector.leader if elector else "")
        async with status, _health_server(parts, registry) as address:
            _log_start(settings, address)
            before = _end_of_predecessor(client, settings)
            await manager.run(client, elector, before=before, beside=[*_tasks(parts), status.lead])


@dataclass(frozen=True, slots=True)
class Links:
    """The clients and probers for what is outside the operator: servers, proxies, the cluster's DNS, load balancers.

    *connect* returns a client of the control server at a URL.
    """

    client: KubeClient
    connect: Connect
    prober: GateProber
    dns_prober: dnsprobes.DNSProber
    addresses: HostAddresses


@dataclass(frozen=True, slots=True)
class Parts:
    """The clients, caches and other objects that the reconcilers share."""

    links: Links
    cache: Cache
    applier: Applier
    events: EventRecorder
    settings: Settings
    tailnets: Tailnets
    suffixes: KnownSuffixes
    factory: TailnetFactory
    node_ports: NodePorts
    hosting: HostingView
    identity: KnownIdentity


def _parts(settings: Settings, links: Links, now: Callable[[], datetime]) -> Parts:
    """Make the objects that the reconcilers share."""
    client = links.client
    cache = Cache(sources(settings.namespace, settings.watch_namespaces, settings.cluster_dns_configmap))
    events = EventRecorder(client, instance=settings.pod_name)
    own = links.connect(settings.control_url, _credentials(settings), "")
    preflight = Preflight(own, events, own_pod(client, settings))
    tailnets = _tailnets(KnownTailnet(own, client, cache, preflight), cache)
    identity = KnownIdentity(client, cache, settings.namespace, settings.operator_secret)
    node_ports = NodePorts(client, settings.namespace)
    return Parts(
        links,
        cache,
        Applier(client, cache, events, _errands(tailnets, node_ports), refusal_of, now),
        events,
        settings,
        tailnets,
        KnownSuffixes(cache, tailnets, lambda name: bool(cache.indexed(SERVICE, BY_DESTINATION, name))),
        TailnetFactory(links.connect, client, cache, events, settings),
        node_ports,
        _hosting(cache, settings, tailnets, identity),
        identity,
    )


def _hosting(cache: Cache, settings: Settings, tailnets: Tailnets, identity: KnownIdentity) -> HostingView:
    """Return the view of the Tailscale Services that ProxyGroups host."""
    world = HostingWorld(
        tailnets.service,
        tailnets.names,
        lambda: identity.current().node_id,
        lambda: identity.current().problem,
        lambda: identity.current().is_known,
        lambda: map(key_of, tailnets.all(TAILSCALE_SERVICE)),
        tailnets.service_settled,
    )
    hosting = HostingView(cache, settings, world)
    tailnets.check_services_while(lambda name: bool(hosting.groups_of(name)))
    return hosting


def _manager(parts: Parts, registry: CollectorRegistry) -> Manager:
    """Return the manager of all reconcilers, with the feeds whose changes enqueue keys."""
    return Manager(
        parts.cache,
        reconcilers(parts),
        ControllerMetrics(registry),
        Policy(
            _WORKERS, expected=(KubeError, ControlError), patience=PATIENCE, has_told=parts.applier.journal.has_told
        ),
        feeds={
            DEVICE: parts.tailnets,
            TAILSCALE_SERVICE: parts.tailnets,
            SUFFIXES: parts.suffixes.feed,
            IDENTITY: parts.identity.feed,
            dnsprobes.VERDICT: parts.links.dns_prober.feed,
            ADDRESSES: parts.links.addresses.feed,
            START: StartFeed(),
        },
    )


def _tasks(parts: Parts) -> list[Callable[[], Coroutine[None, None, None]]]:
    """Return the tasks that run beside the reconcilers while this process leads."""
    links, settings = parts.links, parts.settings
    unserved = UnservedKinds(parts.cache, OWN_KINDS, parts.events, own_pod(links.client, settings))
    return [
        parts.tailnets.run,
        parts.identity.run,
        unserved.run,
        links.prober.run,
        links.dns_prober.run,
        links.addresses.run,
    ]


def _status_server(parts: Parts, leader: Callable[[], str]) -> StatusServer:
    """Return the server of the report. *leader* returns the name of the Pod that leads; empty if it isn't known."""
    applier, settings = parts.applier, parts.settings
    knowledge = Knowledge(parts.cache, applier.journal, parts.tailnets, settings, _served_device(settings))
    return StatusServer(settings.status_address, StatusView(knowledge, applier.now).report, leader, applier.now)


def _health_server(parts: Parts, registry: CollectorRegistry) -> HealthServer:
    """Return the server of probes and metrics."""
    cache = parts.cache
    counts: list[Count] = [partial(each, cache) for each in (count_devices, count_proxies, certificate_expiries)]
    return HealthServer(parts.settings.health_address, registry, {"cache": lambda: _unsynced(cache)}, counts=counts)


def _register_gauges(registry: CollectorRegistry, parts: Parts) -> None:
    """Register the metrics whose values we read from the shared objects at each scrape."""
    cache = parts.cache
    registry.register(CacheMetrics(cache))
    registry.register(GroupGauges(cache, parts.settings.namespace))
    registry.register(RelayGauges(cache))
    registry.register(PreflightMetrics(parts.tailnets.findings))
    registry.register(parts.links.dns_prober)
    registry.register(ServiceGauges(parts.tailnets, parts.hosting.world.operator_id))


def reconcilers(parts: Parts) -> list[Reconciler]:
    """Return every reconciler."""
    links, cache, applier, settings = parts.links, parts.cache, parts.applier, parts.settings
    client, tailnets, suffixes = links.client, parts.tailnets, parts.suffixes
    proxies = Proxies(cache, applier, tailnets, settings, suffixes=suffixes.current)
    kinds: list[Kind[Any]] = [
        services(proxies, client, parts.hosting),
        ingresses(proxies, parts.hosting, applier.now),
        connectors(proxies),
        proxyclasses(cache, parts.node_ports),
        proxygroups(proxies, parts.hosting),
        recorders(proxies, client),
        peerrelays(proxies, links.addresses),
        proxygrouppolicies(cache, settings),
        tailnet_kind(cache, tailnets, parts.factory, parts.hosting.world.operator_id),
        dnsconfigs(cache, client, links.dns_prober, settings, suffixes.current),
        owndnsconfigs(cache, settings),
        dnsrecords(cache, settings, parts.hosting, suffixes.current),
        egresspods(cache, client, links.prober, settings),
        mounts(cache, applier.now),
        tailscaleservices(cache, settings, parts.hosting.world),
    ]
    if settings.operator_secret:
        kinds.append(operatordevices(cache, client, tailnets, parts.identity, settings, applier.now))
    return [KindReconciler(kind, cache, applier) for kind in kinds]


def _tailnets(own: KnownTailnet, cache: Cache) -> Tailnets:
    """Return the tailnets that the operator uses: its *own*, and those of the Tailnets in *cache*."""
    return Tailnets(
        [own],
        lambda name: cache.get(TAILNET, Key("", name)) is not None,
        held=lambda: [key_of(each).name for each in cache.all(TAILNET) if has_finalizer(each, FINALIZER)],
    )


def _log_start(settings: Settings, address: str) -> None:
    """Log the version and the settings of the operator, and the *address* of probes and metrics, if there is one."""
    log.info(
        "tsoperator %s in namespace %s, with control server %s; %s",
        __version__,
        settings.namespace,
        settings.control_url,
        f"probes and metrics on {address}" if address else "no probes and metrics",
    )
    if settings.watch_namespaces:
        log.info("watching the namespaces %s, and our own", ", ".join(settings.watch_namespaces))


def _errands(tailnets: Tailnets, node_ports: NodePorts) -> Callable[[Errand], Awaitable[None]]:
    """Return the function that carries out the errands of plans."""

    async def run_errand(step: Errand) -> None:
        if isinstance(step, FindNodePorts):
            await node_ports.find()
        else:
            await tailnets.carry_out(step)

    return run_errand


def _served_device(settings: Settings) -> ServedDevice | None:
    """Return the keys of the objects of the operator's own device; None if it doesn't serve the API server."""
    if settings.apiserver_proxy is ProxyMode.OFF:
        return None
    served = ask_of(settings)
    return ServedDevice(served.deployment, served.key, served.own)


def _registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _request_observers(registry: CollectorRegistry) -> list[Callable[[str, str], None]]:
    """Return the functions that count requests: those to the API server, and those to the control server."""

    def observer(api: str) -> Callable[[str, str], None]:
        return lambda method, code: labelled(api, method, code).inc()

    counter = Counter(
        "tsoperator_requests", "Requests by how they were answered.", ["api", "method", "code"], registry=registry
    )
    labelled = lru_cache(counter.labels)
    return [observer("kubernetes"), observer("control")]


def _probe_observer(registry: CollectorRegistry) -> Callable[[str], None]:
    """Return the function that counts the results of requests to the health checks of egress Services."""
    counter = Counter(
        "tsoperator_egress_probes",
        "Requests by which egress Services were asked whether they lead to a Pod, by what came of them.",
        ["result"],
        registry=registry,
    )
    for each in HealthAnswer:
        counter.labels(each)
    return lambda result: counter.labels(result).inc()


def _credentials(settings: Settings) -> ClientCredentials:
    if settings.client_id:
        return IdentityFile(settings.client_id, settings.identity_token)
    return CredentialFiles(settings.client_id_file, settings.client_secret_file)


async def _elector(client: KubeClient, settings: Settings) -> LeaderElector:
    identity = f"{settings.pod_name or socket.gethostname()}_{uuid.uuid4()}"
    bound_to = await client.pod_of_token() if settings.pod_name else ""
    return LeaderElector(client, Key(settings.namespace, LEASE_NAME), Process(identity, settings.pod_name, bound_to))


def _end_of_predecessor(client: KubeClient, settings: Settings) -> Callable[[], Awaitable[None]] | None:
    """Return a function that waits until our Deployment has no Pod of the Go operator; None outside of a Pod."""
    pod = Key(settings.namespace, settings.pod_name)
    return partial(predecessor.gone, client, pod) if settings.pod_name else None


def _unsynced(cache: Cache) -> str:
    waiting = cache.unsynced_selections()
    return f"not listed yet: {', '.join(waiting)}" if waiting else ""
