"""The simulated cluster as a whole: it runs the API server, controllers, kubelets and control server together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import yaml

from clustersim import crds, workloads
from clustersim.apiserver import ApiServer
from clustersim.clusterdns import ClusterDNS
from clustersim.control import Control
from clustersim.faults import Faults
from clustersim.furniture import definition, furnish
from clustersim.health import HealthProxy
from clustersim.kinds import Kinds
from clustersim.kubelet import Kubelet
from clustersim.loadbalancers import LoadBalancers
from clustersim.nodes import MONITOR_GRACE, NODE_NAME
from clustersim.objects import CRD, RESOURCES, Resource
from clustersim.programs import Program, Programs
from clustersim.rbac import USER, Rights
from clustersim.services import FAMILIES, SERVICE_FAMILIES
from clustersim.store import HISTORY_WINDOW, Store
from clustersim.tailnet import PARTNER_CLIENT, PARTNER_DEVICE, PARTNER_DOMAIN, Tailnets
from clustersim.traffic import Request, Traffic

_FIRST_OF_PARTNER = 1001
"""The number of the second tailnet's first device.

It is so high that the devices of both tailnets have different IDs and addresses.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """The settings of the cluster. Addresses to listen at are HOST:PORT; for port 0, the system chooses a free port.

    *absent* are the plurals of kinds that aren't served yet. *bookmark_interval* is in seconds. *history* is the number
    of changes that are remembered; a watch can't resume from an older version. *families* are the IP families of the
    Pods, in their order, and *service_families* those of cluster IPs. If *controllers* is false, the simulation makes
    and runs no Pods. Tests with more objects than the simulated controllers and kubelet can handle need that.
    *programs* play Pods. The cluster's DNS listens at *dns_listen* if that isn't empty; in this case, the program
    called nameserver has to be among the *programs*. *devices* are names of devices, or ``NAME=ADDRESS``; if there are
    any, proxies can lead to no other names. *policy_tags* are the tags in the tailnet's policy; None permits every tag.
    If *partner_listen* isn't empty, the control server of a second tailnet listens there, and every Tailnet without
    spec.loginUrl stands for this second tailnet. The control plane calls a node unreachable after *monitor_grace*
    seconds of silence.
    """

    listen: str = "127.0.0.1:0"
    control_listen: str = "127.0.0.1:0"
    health_listen: str = "127.0.0.1:0"
    partner_listen: str = ""
    headscale: bool = False
    tailnet_domain: str = "tail1234.ts.net"
    operator_namespace: str = "tailscale"
    namespaces: tuple[str, ...] = ("default", "kube-system", "tailscale")
    absent: frozenset[str] = frozenset()
    bookmark_interval: float = 30.0
    history: int = HISTORY_WINDOW
    families: tuple[str, ...] = FAMILIES
    service_families: tuple[str, ...] = SERVICE_FAMILIES
    controllers: bool = True
    programs: tuple[Program, ...] = ()
    dns_listen: str = ""
    devices: tuple[str, ...] = ()
    policy_tags: frozenset[str] | None = None
    nodes: tuple[str, ...] = (NODE_NAME,)
    monitor_grace: float = MONITOR_GRACE


@dataclass(frozen=True, slots=True)
class ClusterSim:
    """A running cluster: its addresses, its objects and its faults.

    Through the HTTP proxy at *health_proxy_url*, a program outside the cluster reaches the health ports behind
    Services. A test adds, kills and revives nodes by the *kubelet*. The *balancers* are the cloud's load balancers. The
    *rights* are those of the kubeconfig's user. *now* returns the time of the API server, which goes on with the clock
    of the event loop.
    """

    api_url: str
    control_url: str
    store: Store
    control: Control
    faults: Faults
    traffic: Traffic
    kinds: Kinds
    tailnets: Tailnets
    health_proxy_url: str
    kubelet: Kubelet
    balancers: LoadBalancers
    rights: Rights
    now: Callable[[], datetime]

    @property
    def writes(self) -> Counter[Request]:
        """The mutating requests so far, by user agent, verb and plural."""
        return self.traffic.writes

    @property
    def requests(self) -> Counter[Request]:
        """All requests so far, by user agent, verb and plural."""
        return self.traffic.requests

    def writes_since(self, before: Counter[Request]) -> Counter[Request]:
        """Return the writes since *before*, an older copy of ``writes``."""
        return self.traffic.writes_since(before)

    def serve_kind(self, resource: Resource) -> None:
        """Serve *resource* from now on, as if its CustomResourceDefinition had just been created."""
        self.kinds.serve(resource)
        crd = definition(resource)
        if self.store.find(CRD, "", crd["metadata"]["name"]) is None:
            self.store.create(CRD, crd)

    def kubeconfig(self) -> str:
        """Return the YAML of a kubeconfig for the API server."""
        context = {"cluster": "clustersim", "user": USER}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "clustersim",
                "clusters": [{"name": "clustersim", "cluster": {"server": self.api_url}}],
                "contexts": [{"name": "clustersim", "context": context}],
                "users": [{"name": USER, "user": {"token": USER}}],
            },
            sort_keys=False,
        )


@asynccontextmanager
async def cluster_sim(options: SimOptions | None = None) -> AsyncIterator[ClusterSim]:
    """Run a simulated cluster until the end of the ``async with`` block."""
    options = options or SimOptions()
    now = _clock()
    store = Store(
        options.namespaces,
        window=options.history,
        families=options.families,
        service_families=options.service_families,
        clock=now,
    )
    kinds = Kinds(kind for kind in RESOURCES if kind.plural not in options.absent)
    furnish(store, kinds, options.operator_namespace)
    control = _control(options)
    faults, traffic, rights = Faults(store), Traffic(), Rights()
    server = ApiServer(store, kinds, faults, traffic, rights, Programs(store, options.programs))
    server.bookmark_interval = options.bookmark_interval
    tailnets = Tailnets(control)
    nodes, balancers = Kubelet(store, tailnets, options.families, nodes=options.nodes), LoadBalancers(store)
    nodes.monitor_grace = options.monitor_grace
    async with (
        _cluster_dns(store, options),
        HealthProxy(store, nodes.ask).serve(*_address(options.health_listen)) as health_proxy_url,
        control.serve(*_address(options.control_listen)) as control_url,
        server.serve(*_address(options.listen)) as api_url,
        _partner(store, tailnets, options),
        asyncio.TaskGroup() as tasks,
    ):
        running = [tasks.create_task(crds.run(store, kinds))]
        if options.controllers:
            running.append(tasks.create_task(workloads.run(store)))
            running.append(tasks.create_task(nodes.run()))
            running.append(tasks.create_task(balancers.run()))
        yield ClusterSim(
            api_url=api_url,
            control_url=control_url,
            store=store,
            control=control,
            faults=faults,
            traffic=traffic,
            kinds=kinds,
            tailnets=tailnets,
            health_proxy_url=health_proxy_url,
            kubelet=nodes,
            balancers=balancers,
            rights=rights,
            now=now,
        )
        for each in running:
            each.cancel()


def _control(options: SimOptions) -> Control:
    """Return the control server, with the devices in *options*."""
    control = Control(options.tailnet_domain, options.headscale)
    if options.policy_tags is not None:
        control.policy_tags = set(options.policy_tags)
    for each in options.devices:
        name, _, address = each.partition("=")
        control.add_user_device(name.partition(".")[0], address)
        control.has_all_targets = False
    return control


@asynccontextmanager
async def _partner(store: Store, tailnets: Tailnets, options: SimOptions) -> AsyncIterator[None]:
    """Serve the second tailnet if *options* ask for one, and set its URL in Tailnets that have no spec.loginUrl."""
    if not options.partner_listen:
        yield
        return
    partner = Control(PARTNER_DOMAIN, first=_FIRST_OF_PARTNER)
    partner.client_id, partner.client_secret = PARTNER_CLIENT
    partner.add_user_device(PARTNER_DEVICE)
    partner.has_all_targets = False
    async with partner.serve(*_address(options.partner_listen)) as url:
        tailnets.others[url] = partner
        store.login_url = url
        yield


def _cluster_dns(store: Store, options: SimOptions) -> AbstractAsyncContextManager[None]:
    if not options.dns_listen:
        return nullcontext()
    ports = {each.name: each.ports for each in options.programs}
    return ClusterDNS(store, ports["nameserver"][53]).serve(*_address(options.dns_listen))


def _clock() -> Callable[[], datetime]:
    """Return a wall clock that starts at the present time and advances with the clock of the event loop."""
    loop, start = asyncio.get_running_loop(), datetime.now(UTC)
    began = loop.time()
    return lambda: start + timedelta(seconds=loop.time() - began)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)
