"""The World, by which a test acts on a cluster and reads it as a user does, and the operator in the test's process.

The cluster is a simulated one or a real API server. Some things, such as faults, exist only on a simulated cluster.
Tests reach them by `World.sim`, and such tests are marked ``simulated``.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from clustersim import objects
from clustersim.control import Control
from clustersim.history import Change, Subscription
from clustersim.loadbalancers import LoadBalancers
from clustersim.sim import ClusterSim, SimOptions, cluster_sim
from clustersim.store import Store
from clustersim.tailnet import Device, NewKey, Tailnets
from clustersim.traffic import MUTATING, Request
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY
from tsoperator.api.names import PARENT_NAMESERVER
from tsoperator.api.objects import (
    CONFIGMAP,
    DNSCONFIG,
    EVENT,
    POD,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    Resource,
    annotations,
    key_of,
    resource_of,
    uid,
)
from tsoperator.app import run
from tsoperator.dns.canary import CANARY_PREFIX
from tsoperator.dns.probe.answers import Reply
from tsoperator.dns.probe.asking import Query
from tsoperator.dns.probe.prober import DNSProber, ProbePace
from tsoperator.kube.client import USER_AGENT, KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.errors import NotFound
from tsoperator.runtime.clock import utc_now
from tsoperator.runtime.ownership import OWNER_TYPES, Owner
from tsoperator.runtime.workqueue import Backoff
from tsoperator.settings import Settings

from tests.support.chartrights import USED
from tests.support.cluster import kube_client
from tests.support.objects import texts
from tests.support.rbac import operators_rights

NAMESPACE = "tailscale"
"""The operator's namespace."""

QUIET = 0.75
"""The seconds of a period in which the operator makes no request. After two such periods, it has settled.

Two periods take longer than the second for which the operator waits before it reports some conditions. Most tests run
in virtual time, so this costs little real time.
"""

PATIENCE = 30.0
"""The seconds after which a wait for a condition fails."""

_COMPONENT = "tailscale-operator"  # the component in the source of the operator's Events
_LOOKS = 3  # tries on a real cluster: the operator reacts to late changes by the cluster's controllers
_PACE = ProbePace(rest=0.01)  # less than `QUIET`, so that the nameserver's answers count as the operator's work
_REAL_PACE = replace(_PACE, backoff=Backoff(0.05, 0.05))  # also after a round that saw the old records
_TOGETHER = 0.01  # s in which several changes cause only one look, because each look costs time
_LOOK_AGAIN = 0.05  # s between the first looks at a condition that no change of the cluster announces
_LATER = 0.1  # the later looks are this part of the time since the first look apart

_NAMESERVER = ((objects.DEPLOYMENT, "nameserver"), (objects.SERVICE, "nameserver"))
_OTHERS = (objects.NODE, objects.POD, objects.REPLICASET, objects.ENDPOINTSLICE)  # never written by the operator
_CONTROLLED = (objects.STATEFULSET, objects.DEPLOYMENT, objects.ADMISSIONPOLICY)  # only controllers write their status
_MEANT = ("namespace", "name", "uid", "labels", "finalizers", "ownerReferences", "deletionTimestamp")
_PARENT_TYPES = {**OWNER_TYPES, DNSCONFIG: PARENT_NAMESERVER}
_CONTROLLERS_NOTES = "deployment.kubernetes.io/"

Value = TypeVar("Value")


class Condition(NamedTuple):
    """A condition in the status of an object."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy of one parent: the children that the operator has made for it."""

    service: Object
    statefulset: Object
    secret: Object
    pod: Object

    @property
    def name(self) -> str:
        """The name of the headless Service and of the StatefulSet."""
        return key_of(self.statefulset).name

    @property
    def pod_uid(self) -> str:
        """The UID of the Pod, by which a test notices that another Pod has replaced it."""
        return uid(self.pod)

    @property
    def addresses(self) -> list[str]:
        """The Pod's addresses in the families of the headless Service, IPv4 first."""
        families = self.service["spec"]["ipFamilies"]
        found = [ip_address(entry["ip"]) for entry in self.pod["status"]["podIPs"]]
        return [str(address) for address in found if f"IPv{address.version}" in families]

    @property
    def env(self) -> dict[str, str]:
        """The variables that the StatefulSet gives the proxy's container, without those that refer to other objects."""
        container = self.statefulset["spec"]["template"]["spec"]["containers"][0]
        return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}

    @property
    def state(self) -> dict[str, str]:
        """The decoded data of the proxy's Secret."""
        return texts(self.secret)

    @property
    def config(self) -> Object:
        """The configuration of the proxy's tailscaled, in the form for the newest versions."""
        config: Object = json.loads(self.state["cap-107.hujson"])
        return config

    @property
    def holds_auth_key(self) -> bool:
        """Tell whether the Secret has an auth key that the proxy has yet to use."""
        return any("AuthKey" in json.loads(text) for name, text in self.state.items() if name.endswith("hujson"))


@dataclass(frozen=True, slots=True)
class World:
    """A cluster as its user sees it, with everything that an operator on it needs.

    *store* contains the objects of the cluster and announces changes. *requests* counts the requests to the API server
    so far, at least those of the operator. *quiet* and *patience* are as `QUIET` and `PATIENCE`. Proxies join the
    *tailnets*. The operator reaches the health ports of proxies through *health_proxy_url*. *balancers* gives addresses
    to Services of type LoadBalancer without a class.
    """

    api: KubeClient
    store: Store
    control: Control
    control_url: str
    kubeconfig: str
    requests: Callable[[], Counter[Request]]
    tailnets: Tailnets
    health_proxy_url: str
    balancers: LoadBalancers
    quiet: float = QUIET
    patience: float = PATIENCE
    simulation: ClusterSim | None = None

    @property
    def sim(self) -> ClusterSim:
        """The simulated cluster. Fails if the cluster is a real one."""
        assert self.simulation is not None, "a test that needs the simulated cluster is to be marked `simulated`"
        return self.simulation

    @property
    def now(self) -> Callable[[], datetime]:
        """The wall clock of the API server and of the operator."""
        return self.simulation.now if self.simulation else utc_now

    @asynccontextmanager
    async def operators_client(self) -> AsyncIterator[KubeClient]:
        """Open a client that has the operator's rights."""
        with TemporaryDirectory(prefix="tsoperator-test-") as folder:
            path = Path(folder) / "kubeconfig"
            path.write_text(self.kubeconfig)
            configuration = await load_configuration(str(path))
        async with KubeClient(configuration, request_timeout=30) as client:
            yield client

    async def apply(self, *objects: Object) -> None:
        """Create *objects* in this order."""
        for obj in objects:
            await self.api.create(resource_of(obj), obj)

    async def change(self, obj: Object, patch: Object) -> None:
        """Merge *patch* into the object in the cluster with the kind and the key of *obj*."""
        await self.api.patch(resource_of(obj), key_of(obj), patch)

    async def annotate(self, obj: Object, annotations: dict[str, str | None]) -> None:
        """Set annotations of *obj*, or remove those that are None."""
        await self.change(obj, {"metadata": {"annotations": annotations}})

    async def delete(self, *objects: Object) -> None:
        """Request the deletion of *objects*."""
        for obj in objects:
            await self.api.delete(resource_of(obj), key_of(obj))

    async def find(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> Object | None:
        """Return an object, or None if the cluster doesn't have it."""
        try:
            return await self.api.get(resource, Key(namespace, name))
        except NotFound:
            return None

    async def look(self, obj: Object) -> Object:
        """Return the object in the cluster with the kind and the key of *obj*. Raises NotFound."""
        return await self.api.get(resource_of(obj), key_of(obj))

    async def replaced(self, obj: Object) -> bool:
        """Tell whether the cluster has an object with the kind and the key of *obj*, but with another UID."""
        key = key_of(obj)
        found = await self.find(resource_of(obj), key.name, key.namespace)
        return found is not None and uid(found) != uid(obj)

    async def gone(self, obj: Object) -> bool:
        """Tell whether the cluster has no object with the kind and the key of *obj*."""
        key = key_of(obj)
        return await self.find(resource_of(obj), key.name, key.namespace) is None

    async def children(self, resource: Resource, parent: Object) -> list[Object]:
        """Return the children of *parent* with the kind *resource*."""
        wanted = Owner(_PARENT_TYPES[resource_of(parent)], key_of(parent)).labels
        selector = ",".join(f"{name}={value}" for name, value in wanted.items())
        return (await self.api.list(resource, NAMESPACE, selector)).items

    async def proxy(self, parent: Object) -> Proxy | None:
        """Return the proxy of *parent* once all its children exist and its Pod is ready; None before that."""
        found = [await self.children(resource, parent) for resource in (SERVICE, STATEFULSET, SECRET, POD)]
        if [len(objects) for objects in found] != [1, 1, 1, 1]:
            return None
        proxy = Proxy(*(objects[0] for objects in found))
        return proxy if is_ready(proxy.pod) else None

    async def joined(self, parent: Object, other_than: str = "") -> Proxy:
        """Wait until the proxy of *parent* has logged in and the operator has settled. Return the proxy.

        The wait goes on while the proxy's device still has the ID *other_than*.
        """

        async def there() -> Proxy | None:
            proxy = await self.proxy(parent)
            if proxy is None or proxy.holds_auth_key or not {"device_id", "device_fqdn"} <= proxy.state.keys():
                return None
            asks = "reissue_authkey" in proxy.state
            return None if asks or proxy.state["device_id"] == other_than else proxy

        await self.eventually(there)
        await self.settled()
        return await self.eventually(there)

    async def leftovers(self, parent: Object) -> list[str]:
        """Return the kinds and keys of the children that still exist for *parent*."""
        kinds = (SERVICE, STATEFULSET, SECRET, POD)
        return [f"{kind} {key_of(obj)}" for kind in kinds for obj in await self.children(kind, parent)]

    async def condition(self, obj: Object, kind: str = "TailscaleProxyReady") -> Condition | None:
        """Return the condition of the type *kind* in the status of *obj*, or None without such a condition."""
        for condition in ((await self.look(obj)).get("status") or {}).get("conditions") or ():
            if condition["type"] == kind:
                return Condition(condition["status"], condition["reason"], condition["message"])
        return None

    async def reason(self, obj: Object, kind: str = "TailscaleProxyReady") -> str:
        """Return the reason of the condition of the type *kind* in the status of *obj*; empty if that is missing."""
        condition = await self.condition(obj, kind)
        return condition.reason if condition else ""

    async def events(self, obj: Object) -> dict[str, str]:
        """Return the messages of the operator's Events on *obj* by reason, without those of other controllers."""
        found = (await self.api.list(EVENT)).items
        ours = (event for event in found if event["source"].get("component") == _COMPONENT)
        return {event["reason"]: event["message"] for event in ours if _involves(event["involvedObject"], obj)}

    async def records(self) -> dict[str, list[str]]:
        """Return the records in the ConfigMap: the addresses of each name, IPv4 first. The canaries are left out."""
        return {name: found for name, found in (await self._recorded()).items() if not name.startswith(CANARY_PREFIX)}

    async def canaries(self) -> dict[str, list[str]]:
        """Return the canaries in the ConfigMap of records: the addresses of each name."""
        return {name: found for name, found in (await self._recorded()).items() if name.startswith(CANARY_PREFIX)}

    async def _recorded(self) -> dict[str, list[str]]:
        configmap = await self.find(CONFIGMAP, CONFIGMAP_NAME)
        if configmap is None:
            return {}
        document = json.loads(configmap["data"][RECORDS_KEY])
        ip4, ip6 = document["ip4"], document.get("ip6") or {}
        return {name: [*ip4.get(name, ()), *ip6.get(name, ())] for name in {*ip4, *ip6}}

    async def zones(self) -> list[str]:
        """Return the zones in the ConfigMap of records; no zones if the ConfigMap doesn't exist."""
        configmap = await self.find(CONFIGMAP, CONFIGMAP_NAME)
        return json.loads(configmap["data"][RECORDS_KEY])["zones"] if configmap else []

    async def ask(self, query: Query) -> Reply:
        """Answer *query* in place of the nameserver, from the records in the cluster.

        The reply is a failure if no Pod of the nameserver is ready, or if *query* goes to another server.
        """
        deployment, service, records = (
            self.store.find(resource, NAMESPACE, name) or {}
            for resource, name in (*_NAMESERVER, (objects.CONFIGMAP, CONFIGMAP_NAME))
        )
        is_up = bool(deployment.get("status", {}).get("readyReplicas"))
        if not is_up or query.server != service.get("spec", {}).get("clusterIP"):
            return Reply(failure="didn't answer")
        document = json.loads((records.get("data") or {}).get(RECORDS_KEY, "{}"))
        found = [address for family in ("ip4", "ip6") for address in document.get(family, {}).get(query.name, ())]
        return Reply("NOERROR" if found else "NXDOMAIN", frozenset(found))

    async def resolve(self, host: str) -> list[str]:
        """Return the addresses of *host*, the hostname of a load balancer, as the cloud's DNS does."""
        return self.balancers.addresses(host)

    def peer(self, name: str = "db", control: Control | None = None) -> Device:
        """Let a device called *name* join the tailnet of *control*, by default the operator's own."""
        control = control or self.control
        return control.register(control.create_key(NewKey(("tag:db",))).key, name)

    async def device_names(self) -> list[str]:
        """Return the MagicDNS names of the tailnet's devices."""
        return sorted(device.name for device in self.control.devices.values())

    async def eventually(self, holds: Callable[[], Awaitable[Value | None]], timeout: float | None = None) -> Value:
        """Call *holds* until its result is true, and return the result.

        Fail after *timeout* seconds, by default `patience`, with the last result in the message.
        """
        value: Any = "nothing"
        patience = self.patience if timeout is None else timeout
        now = asyncio.get_running_loop().time
        start = now()
        try:
            async with asyncio.timeout(patience):
                with self.store.subscribe() as changes:
                    while not (value := await holds()):
                        if await _within(max(_LOOK_AGAIN, _LATER * (now() - start)), changes.batch()):
                            await asyncio.sleep(_TOGETHER)
        except TimeoutError:
            raise AssertionError(f"not true within {patience:g} s; last: {value!r}") from None
        result: Value = value
        return result

    async def becomes(
        self, look: Callable[[], Awaitable[object]], wanted: object, timeout: float | None = None
    ) -> None:
        """Wait until *look* returns *wanted*. After *timeout* seconds, fail with the last result of *look*."""
        last: Any = "nothing"

        async def same() -> bool:
            nonlocal last
            last = await look()
            return bool(last == wanted)

        try:
            await self.eventually(same, timeout)
        except AssertionError:
            assert last == wanted
            raise

    async def restart(self) -> None:
        """Run another operator until it has settled. The first operator can still run beside it."""
        async with running_operator(self):
            await self.settled()

    async def settled(self, after: float = 0.0) -> None:
        """Wait until the operator has nothing left to do: it makes no request, and nothing changes in the cluster.

        Begin only after *after* seconds.
        """
        await asyncio.sleep(after)
        async with asyncio.timeout(self.patience):
            with self.store.subscribe() as changes:
                quiet = 0
                while quiet < 2:  # a single quiet period may come from a busy machine
                    quiet = 0 if await self._is_busy(changes) else quiet + 1

    async def writes_when_left_alone(self) -> Counter[Request]:
        """Wait until the operator has settled, and return its writes after that.

        There should be none, since nobody changes anything.
        """
        for _ in range(1 if self.simulation else _LOOKS):
            await self.settled()
            with self.store.subscribe() as changes:
                written = await self.writes_during(self.settled())
                changes.close()
                late = [change async for change in changes if not _may_be_ours(change)]
            if not (written and late):
                break
        return written

    async def writes_during(self, acting: Awaitable[None]) -> Counter[Request]:
        """Await *acting*, and return how often each request that wrote something was made meanwhile."""
        before = Counter(self.requests())
        await acting
        return Counter(
            {request: count for request, count in (self.requests() - before).items() if request[1] in MUTATING}
        )

    async def _is_busy(self, changes: Subscription) -> bool:
        before = self._count()
        return await _within(self.quiet, changes.batch()) or self._count() != before

    def _count(self) -> int:
        """Return the number of the operator's requests so far."""
        return sum(count for (agent, _, _), count in self.requests().items() if agent == USER_AGENT)


def _involves(reference: Object, obj: Object) -> bool:
    """Tell whether an Event's *reference* is to *obj*."""
    key = Key(reference.get("namespace", ""), reference["name"])
    return (reference["kind"], key) == (obj["kind"], key_of(obj))


def _may_be_ours(change: Change) -> bool:
    """Tell whether *change* can come from the operator. All other changes come from controllers and nodes."""
    if change.resource in _CONTROLLED and change.old is not None:
        return meant(change.object) != meant(change.old)
    return change.resource not in _OTHERS


async def _within(seconds: float, waiting: Awaitable[Any]) -> bool:
    """Await *waiting* for at most *seconds*, and tell whether it has ended."""
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def new_world(options: SimOptions | None = None) -> AsyncIterator[World]:
    """Run a simulated cluster on which an operator has the chart's rights.

    Fail at the end if the API server has denied the operator a request.
    """
    async with cluster_sim(options) as sim, kube_client(sim.api_url) as api:
        sim.rights.give(*(each for each in operators_rights() if "rules" in each))
        yield World(
            api,
            sim.store,
            sim.control,
            sim.control_url,
            sim.kubeconfig(),
            lambda: sim.requests,
            sim.tailnets,
            sim.health_proxy_url,
            sim.balancers,
            simulation=sim,
        )
    USED.update(sim.rights.used)
    assert not sim.rights.denied


@asynccontextmanager
async def running_operator(world: World, **settings: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run the operator on the cluster of *world* until the end of the block; *settings* are those of `Settings`."""
    with TemporaryDirectory(prefix="tsoperator-test-") as folder:
        files = {
            "kubeconfig": world.kubeconfig,
            "client_id_file": world.control.client_id,
            "client_secret_file": world.control.client_secret,
        }
        paths = {name: Path(folder) / name for name in files}
        for name, path in paths.items():
            path.write_text(files[name])
        chosen = {
            "namespace": NAMESPACE,
            "login_server": world.control_url,
            "leader_election": False,
            "health_address": "",
            "status_address": "",
            "manage_cluster_dns": True,
            "operator_secret": "operator",
            **paths,
            "kubeconfig": str(paths["kubeconfig"]),
            **settings,
        }
        with _http_proxy(world.health_proxy_url):
            async with asyncio.TaskGroup() as tasks:
                prober = DNSProber(world.ask, _PACE if world.simulation else _REAL_PACE)
                operator = tasks.create_task(run(Settings(**chosen), world.now, prober, world.resolve), name="operator")
                yield operator
                operator.cancel()


@contextmanager
def _http_proxy(url: str) -> Iterator[None]:
    """Send HTTP requests that don't go to loopback through the proxy at *url*, which leads into the cluster."""
    wanted = {"http_proxy": url, "no_proxy": "127.0.0.1,localhost"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


def meant(obj: Object) -> Object:
    """Return *obj* without the parts that the API server and its controllers write, such as the status.

    They write these parts at any time, also a moment after somebody has created the object. So tests compare the
    results of this function, not whole objects.
    """
    metadata = {name: obj["metadata"].get(name) for name in _MEANT}
    notes = {name: value for name, value in annotations(obj).items() if not name.startswith(_CONTROLLERS_NOTES)}
    return {**obj, "metadata": {**metadata, "annotations": notes}, "status": None}


def is_ready(pod: Object) -> bool:
    """Tell whether *pod* is ready and isn't being deleted."""
    conditions: Iterable[Object] = (pod.get("status") or {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
