"""The kubelets: every Pod gets a node and addresses, and runs.

In the Pods of proxies and of Recorders, Tailscale's images are simulated. This module calls both of them proxies. A
proxy sees a change of an object that it mounts only when its Pod is synced: once a minute, and at each change of the
Pod's metadata. A deleted Pod with a preStop hook runs on until its hook has ended, as in a cluster, but faster. The
Pods of a node that has died stay as they are, even when they are deleted, until the node comes back or somebody deletes
them by force.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from itertools import cycle

from clustersim.conditions import timestamp, with_condition
from clustersim.containerboot import CREATING, ContainerState, Proxy, proxy_container
from clustersim.controller import Key, key_of
from clustersim.k8sproxy import APIProxy, k8s_proxy_container
from clustersim.mounts import SYNC
from clustersim.nodes import NODE_NAME, Nodes
from clustersim.objects import CONFIGMAP, ENDPOINTSLICE, NODE, POD, SECRET, Object, Resource
from clustersim.pods import is_deleting
from clustersim.proxyconfig import CAPABILITY_VERSION
from clustersim.recorder import Recorder, recorder_container
from clustersim.services import FAMILIES
from clustersim.store import ApiError, Change, Store
from clustersim.tailnet import Tailnet, Tailnets

PODS4 = IPv4Network("10.244.0.0/16")
PODS6 = IPv6Network("2001:db8:244::/64")
_PODS: Mapping[str, IPv4Network | IPv6Network] = {"IPv4": PODS4, "IPv6": PODS6}
TAILNET_POLL = 0.1
"""Seconds between two checks of whether the control server has changed the proxies' devices."""
SECOND = 0.01
"""The time, in seconds of the event loop, for one second of a Pod's preStop hook or grace period."""
OFFLINE_AFTER = 60.0
"""Seconds from the death of a node until the control server marks the devices there as offline."""
_SYNCED_AT = ("annotations", "labels", "deletionTimestamp", "deletionGracePeriodSeconds")
"""The fields of a Pod's metadata. When one of them changes, the kubelet syncs the Pod."""

logger = logging.getLogger(__name__)

Image = Proxy | Recorder | APIProxy
"""A simulated image."""


async def run(store: Store, tailnet: Tailnet, families: Sequence[str] = FAMILIES) -> None:
    """Run every Pod, with addresses of *families* in this order, until cancelled."""
    await Kubelet(store, Tailnets(tailnet), families).run()


@dataclass(slots=True)
class RunningPod:
    """A Pod that runs on the *node*.

    Its addresses follow from its *number* and its *families*. *restarts* is how often the node has started the Pod
    again. *proxy* is the simulated image; None if the Pod runs none. *end* is the task that ends the Pod. *synced* is
    the time of the Pod's last sync, by the clock of the event loop, and *seen* the Pod's metadata at that time.
    """

    key: Key
    node: str
    number: int
    families: Sequence[str]
    restarts: int = 0
    proxy: Image | None = None
    end: asyncio.Task[None] | None = None
    synced: float = 0.0
    seen: Object | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The Pod's addresses, one of each family."""
        return tuple(str(_PODS[family][self.number]) for family in self.families)


class Kubelet:
    """Runs all Pods of the cluster, on one node unless more are added.

    While a Pod ends, time passes faster: a second of its grace period takes *second* seconds. If *ignores_sigterm* is
    true, deleted proxies run until their grace periods end. The proxies in new Pods have the *capability_version*.
    """

    def __init__(
        self,
        store: Store,
        tailnets: Tailnets,
        families: Sequence[str] = FAMILIES,
        second: float = SECOND,
        nodes: Sequence[str] = (NODE_NAME,),
    ) -> None:
        self.second = second
        self.ignores_sigterm = False
        self.capability_version = CAPABILITY_VERSION
        self._families = families
        self._store = store
        self._tailnets = tailnets
        self._tasks = asyncio.TaskGroup()
        self._running: dict[str, RunningPod] = {}
        self._readers: dict[tuple[Resource, Key], set[str]] = {}
        self._numbers = cycle(range(2, PODS4.num_addresses - 1))
        self._numbers_taken: set[int] = set()
        self._nodes = Nodes(store)
        self._first_nodes = nodes
        self._deaths: dict[str, list[asyncio.Task[None]]] = {}
        self._switched_off: set[str] = set()

    async def run(self) -> None:
        """Run every Pod until cancelled."""
        async with self._tasks as tasks:
            tasks.create_task(self.follow_cluster())
            tasks.create_task(self.follow_tailnet())

    def ask(self, address: str, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and headers that *port* of the Pod with *address* answers; None without an answer."""
        proxies = (running.proxy for running in self._alive() if address in running.addresses)
        proxy = next(proxies, None)
        return proxy.health(port) if proxy else None

    @property
    def monitor_grace(self) -> float:
        """The seconds of silence after which the control plane calls a node unreachable."""
        return self._nodes.monitor_grace

    @monitor_grace.setter
    def monitor_grace(self, seconds: float) -> None:
        self._nodes.monitor_grace = seconds

    def add_node(self, name: str) -> None:
        """Add a node, which gets new Pods from now on."""
        self._nodes.add(name)
        self._look_at(self._store.list(POD))

    def kill_node(self, name: str) -> None:
        """Make a node die with all its Pods. The control plane notices it later, because the kubelet is silent."""
        self._store.silent_nodes.add(name)
        dead = [running for running in self._running.values() if running.node == name]
        for running in dead:
            if running.end is not None:
                running.end.cancel()
        proxies = [running.proxy for running in dead if running.proxy is not None]
        self._deaths[name] = [
            self._tasks.create_task(self._nodes.miss(name)),
            self._tasks.create_task(self._lose_devices(proxies)),
        ]

    def revive_node(self, name: str) -> None:
        """Start a node that has died. It removes its Pods that were deleted meanwhile, and starts the others again."""
        for task in self._deaths.pop(name):
            task.cancel()
        self._store.silent_nodes.discard(name)
        self._nodes.welcome(name)
        for pod in self._nodes.pods(name):
            was = self._stop(pod["metadata"]["uid"])
            if is_deleting(pod):
                self._store.delete(POD, *key_of(pod), propagation="", grace=0)
            elif was is not None:
                self._start(pod).restarts = pod["status"]["containerStatuses"][0]["restartCount"] + 1
        self._look_at(self._store.list(POD))

    async def follow_cluster(self) -> None:
        """Run the present Pods. After that, react to changes of Pods, nodes, and objects that proxies mount."""
        with self._store.subscribe(POD, SECRET, CONFIGMAP, NODE) as changes:
            for name in self._first_nodes:
                self.add_node(name)
            async for change in changes:
                if change.resource is NODE:
                    self._switch_nodes()
                else:
                    self._follow(change)

    def _switch_nodes(self) -> None:
        """Kill the nodes that the annotation `POWER` switches off, and revive those that it no longer switches off."""
        off = self._nodes.switched_off()
        for name in off - self._switched_off:
            self.kill_node(name)
        for name in self._switched_off - off:
            self.revive_node(name)
        self._switched_off = off

    async def follow_tailnet(self) -> None:
        """Call `step` of each proxy that a change of the tailnet concerns, and sync each proxy's Pod once a minute."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(TAILNET_POLL)
            for running in list(self._alive()):
                if running.proxy is not None and (running.proxy.is_outdated() or now() - running.synced >= SYNC):
                    self._sync(running.proxy.uid, running.key)

    async def _lose_devices(self, proxies: Sequence[Image]) -> None:
        """Mark the devices of *proxies*, whose node has died, as offline after a while.

        A device stays online if, by this time, a Pod on another node uses it.
        """
        await asyncio.sleep(OFFLINE_AFTER)
        used = {running.proxy.device.node_id for running in self._alive() if running.proxy and running.proxy.device}
        for proxy in proxies:
            if proxy.device is not None and proxy.device.node_id not in used:
                proxy.lose_connection(OFFLINE_AFTER)

    def _alive(self) -> Iterator[RunningPod]:
        """Yield the Pods on nodes that run."""
        return (each for each in self._running.values() if each.node not in self._store.silent_nodes)

    def _look_at(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            self._sync(pod["metadata"]["uid"], key_of(pod))

    def _follow(self, change: Change) -> None:
        uid, key = change.object["metadata"]["uid"], key_of(change.object)
        if change.resource != POD:
            for reader in list(self._readers.get((change.resource, key), ())):
                self._sync(reader, self._running[reader].key)
        elif change.type == "DELETED":
            self._end_proxy(self._stop(uid))
        else:
            self._sync(uid, key)

    def _end_proxy(self, running: RunningPod | None) -> None:
        """Disconnect the proxy of a removed Pod from the control server, unless the Pod's node has died before."""
        if running is not None and running.proxy is not None and running.node not in self._store.silent_nodes:
            running.proxy.end()

    def _sync(self, uid: str, key: Key) -> None:
        """Update the containers and the status of the Pod, if the Pod named *key* still has that *uid*."""
        pod = self._store.find(POD, *key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        try:
            self._run_pod(pod)
        except ApiError as error:
            logger.warning("pod %s/%s: %s", *key, error)

    def _run_pod(self, pod: Object) -> None:
        key = key_of(pod)
        if not pod["spec"].get("nodeName") and (name := self._nodes.place_for(pod)):
            pod = self._store.merge(POD, *key, {"spec": {"nodeName": name}})
        if pod["spec"].get("nodeName", "") in self._store.silent_nodes | {""}:
            return
        running = self._running.get(pod["metadata"]["uid"]) or self._start(pod)
        _mount(running, pod["metadata"])
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        if is_deleting(pod) and not grace:
            state = ContainerState(ready=False)
        else:
            state = _unpulled(pod) or (running.proxy.step() if running.proxy else ContainerState())
        state = replace(state, restarts=state.restarts + running.restarts)
        host = self._nodes.address(running.node)
        self._store.merge(POD, *key, {"status": _status(pod, host, running.addresses, state)}, "status")
        if grace and running.end is None:
            running.end = self._tasks.create_task(self._end(running, pod))

    async def _end(self, running: RunningPod, pod: Object) -> None:
        """Run the preStop hook of a deleted Pod, at most until its grace period ends. After that, remove the Pod."""
        with suppress(TimeoutError), self._store.subscribe(ENDPOINTSLICE, CONFIGMAP) as changes:
            async with asyncio.timeout(pod["metadata"]["deletionGracePeriodSeconds"] * self.second):
                if running.proxy is not None:
                    while running.proxy.is_routed() or self.ignores_sigterm:
                        await changes.batch()
                    running.proxy.withdraw()
                    await asyncio.sleep(running.proxy.draining * self.second)
        with suppress(ApiError):  # somebody has removed the Pod meanwhile
            self._store.delete(POD, *running.key, propagation="", uid=pod["metadata"]["uid"], grace=0)

    def _start(self, pod: Object) -> RunningPod:
        """Give a new Pod addresses that no other Pod has, and a simulated proxy if it is a proxy's Pod."""
        uid = pod["metadata"]["uid"]
        running = RunningPod(key_of(pod), pod["spec"]["nodeName"], self._free_number(), self._families)
        addresses = {"podIP": running.addresses[0], "podIPs": [{"ip": each} for each in running.addresses]}
        running.proxy = self._proxy({**pod, "status": {**pod.get("status", {}), **addresses}})
        if running.proxy is not None:
            for resource, name in running.proxy.sources:
                self._readers.setdefault((resource, Key(running.key.namespace, name)), set()).add(uid)
        self._running[uid] = running
        return running

    def _proxy(self, pod: Object) -> Image | None:
        """Return a simulation of Tailscale's image if *pod* runs one, and None otherwise."""
        if (container := proxy_container(pod)) is not None:
            return Proxy(self._store, self._tailnets, pod, container, self.capability_version)
        if (container := recorder_container(pod)) is not None:
            return Recorder(self._store, self._tailnets, pod, container)
        if (container := k8s_proxy_container(pod)) is not None:
            return APIProxy(self._store, self._tailnets, pod, container)
        return None

    def _stop(self, uid: str) -> RunningPod | None:
        """Stop running the Pod with *uid*, and return its RunningPod, or None if the Pod doesn't run."""
        running = self._running.pop(uid, None)
        if running is None:
            return None
        self._numbers_taken.discard(running.number)
        if running.proxy is not None:
            for resource, name in running.proxy.sources:
                self._readers[resource, Key(running.key.namespace, name)].discard(uid)
        return running

    def _free_number(self) -> int:
        """Return the number that gives a new Pod its addresses: the next free one after the latest Pod's number.

        After the highest number of the network, the numbers begin again. So a free address isn't used again soon.
        """
        number = next(number for number in self._numbers if number not in self._numbers_taken)
        self._numbers_taken.add(number)
        return number


def _mount(running: RunningPod, metadata: Object) -> None:
    """Sync the volumes of a Pod if somebody has changed its *metadata*, or if the last sync is a minute ago."""
    now, seen = asyncio.get_running_loop().time(), {name: metadata.get(name) for name in _SYNCED_AT}
    if running.proxy is not None and (seen != running.seen or now - running.synced >= SYNC):
        running.proxy.sync()
        running.synced, running.seen = now, seen


def _unpulled(pod: Object) -> ContainerState | None:
    """Return the state of *pod* if no registry has the image of one of its containers, and None otherwise.

    The domain of such an image ends in .invalid.
    """
    for container in pod["spec"].get("containers", ()):
        image = container.get("image", "")
        if image.partition("/")[0].endswith(".invalid"):
            message = f'Back-off pulling image "{image}": no such host'
            return ContainerState(ready=False, waits="ImagePullBackOff", message=message)
    return None


def _status(pod: Object, host: str, addresses: tuple[str, ...], state: ContainerState) -> Object:
    """Return the status of *pod*, which runs on the node with the address *host*.

    The status keeps the conditions that other programs have set. The Pod isn't ready before its readiness gates are
    True.
    """
    old = pod.get("status", {})
    started = old.get("startTime") or timestamp()
    conditions = old.get("conditions", [])
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())}
    facts = {
        "PodScheduled": True,
        "Initialized": state.waits != CREATING,
        "ContainersReady": state.ready,
        "Ready": state.ready and gates <= true,
    }
    waits = "ReadinessGatesNotReady" if state.ready else "ContainersNotReady"
    for kind, holds in facts.items():
        reason = {} if holds or not kind.endswith("Ready") else {"reason": waits}
        conditions = with_condition(conditions, {"type": kind, "status": str(holds), **reason})
    status = {
        "phase": "Pending" if state.waits == CREATING else "Running",
        "conditions": conditions,
        "hostIP": host,
        "startTime": started,
        "containerStatuses": [
            _container_status(container, state, started) for container in pod["spec"].get("containers", ())
        ],
    }
    if state.waits != CREATING:
        status |= {"podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses]}
    return status


def _container_status(container: Object, state: ContainerState, started: str) -> Object:
    waiting = {"waiting": {"reason": state.waits, "message": state.message}}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": state.ready,
        "started": not state.waits,
        "restartCount": state.restarts,
        "state": waiting if state.waits else {"running": {"startedAt": started}},
    }
