"""The nodes: every Pod gets a place and addresses and runs; a proxy Pod plays the official image besides.

A Pod with a preStop hook that is deleted runs on until its hook has ended, as in a cluster, but faster.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from itertools import cycle

from clustersim.conditions import timestamp, with_condition
from clustersim.containerboot import CREATING, ContainerState, Proxy, proxy_container
from clustersim.controller import Key, key_of
from clustersim.objects import CONFIGMAP, ENDPOINTSLICE, NODE, POD, SECRET, Object, Resource
from clustersim.pods import is_deleting
from clustersim.services import FAMILIES
from clustersim.store import ApiError, Change, Store
from clustersim.tailnet import Tailnet, Tailnets

NODE_NAME = "node1"
NODE_ADDRESS = "192.0.2.10"
PODS4 = IPv4Network("10.244.0.0/16")
PODS6 = IPv6Network("2001:db8:244::/64")
_PODS: Mapping[str, IPv4Network | IPv6Network] = {"IPv4": PODS4, "IPv6": PODS6}
TAILNET_POLL = 0.1
"""Seconds between looks at what the control server has done to the proxies' devices."""
SECOND = 0.01
"""Seconds that a second takes to a Pod that ends."""
_DRAINING = 10
"""The seconds, of those, that a proxy goes on after its preStop hook has seen that no Service leads to it."""

logger = logging.getLogger(__name__)


async def run(store: Store, tailnet: Tailnet, families: Sequence[str] = FAMILIES) -> None:
    """Run every Pod, with addresses of *families* in this order, until cancelled."""
    await Kubelet(store, Tailnets(tailnet), families).run()


@dataclass(slots=True)
class RunningPod:
    """What the node holds of a Pod: its number, from which its addresses follow, their families, and its proxy if it
    is one.
    """

    key: Key
    number: int
    families: Sequence[str]
    proxy: Proxy | None = None
    ending: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, one of each family."""
        return tuple(str(_PODS[family][self.number]) for family in self.families)


class Kubelet:
    """Runs all Pods of the cluster on one node."""

    def __init__(
        self, store: Store, tailnets: Tailnets, families: Sequence[str] = FAMILIES, second: float = SECOND
    ) -> None:
        """*second* is how many seconds one of a Pod's last takes."""
        self._families = families
        self._store = store
        self._tailnets = tailnets
        self._second = second
        self._tasks = asyncio.TaskGroup()
        self._running: dict[str, RunningPod] = {}
        self._readers: dict[tuple[Resource, Key], set[str]] = {}
        self._numbers = cycle(range(2, PODS4.num_addresses - 1))
        self._numbers_taken: set[int] = set()

    async def run(self) -> None:
        """Run every Pod until cancelled."""
        async with self._tasks as tasks:
            tasks.create_task(self.follow_cluster())
            tasks.create_task(self.follow_tailnet())

    def ask(self, address: str, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and headers that the Pod with *address* answers with at *port*; None if none does."""
        proxies = (running.proxy for running in self._running.values() if address in running.addresses)
        proxy = next(proxies, None)
        return proxy.health(port) if proxy else None

    async def follow_cluster(self) -> None:
        """Run what is there, then follow Pods and what proxies mount."""
        with self._store.subscribe(POD, SECRET, CONFIGMAP) as changes:
            if self._store.find(NODE, "", NODE_NAME) is None:
                self._store.create(NODE, node())
            for pod in self._store.list(POD):
                self._sync(pod["metadata"]["uid"], key_of(pod))
            async for change in changes:
                self._follow(change)

    async def follow_tailnet(self) -> None:
        """Tell each proxy whose device was renamed or removed in the tailnet."""
        while True:
            await asyncio.sleep(TAILNET_POLL)
            for uid, running in list(self._running.items()):
                if running.proxy is not None and running.proxy.is_outdated():
                    self._sync(uid, running.key)

    def _follow(self, change: Change) -> None:
        uid, key = change.object["metadata"]["uid"], key_of(change.object)
        if change.resource != POD:
            for reader in list(self._readers.get((change.resource, key), ())):
                self._sync(reader, self._running[reader].key)
        elif change.type == "DELETED":
            self._stop(uid)
        else:
            self._sync(uid, key)

    def _sync(self, uid: str, key: Key) -> None:
        """Bring the Pod's containers and status up to date, if it is still that Pod."""
        pod = self._store.find(POD, *key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        try:
            self._run_pod(pod)
        except ApiError as error:
            logger.warning("pod %s/%s: %s", *key, error)

    def _run_pod(self, pod: Object) -> None:
        key = key_of(pod)
        if not pod["spec"].get("nodeName"):
            pod = self._store.merge(POD, *key, {"spec": {"nodeName": NODE_NAME}})
        running = self._running.get(pod["metadata"]["uid"]) or self._start(pod)
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        if is_deleting(pod) and not grace:
            state = ContainerState(ready=False)
        else:
            state = _unpulled(pod) or (running.proxy.step() if running.proxy else ContainerState())
        self._store.merge(POD, *key, {"status": _status(pod, running.addresses, state)}, "status")
        if grace and not running.ending:
            running.ending = True
            self._tasks.create_task(self._end(running, pod))

    async def _end(self, running: RunningPod, pod: Object) -> None:
        """Let a Pod that is deleted run its preStop hook, for as long as its grace period lasts; then remove it."""
        with suppress(TimeoutError), self._store.subscribe(ENDPOINTSLICE, CONFIGMAP) as changes:
            async with asyncio.timeout(pod["metadata"]["deletionGracePeriodSeconds"] * self._second):
                if running.proxy is not None:
                    while running.proxy.is_routed():
                        await changes.batch()
                    await asyncio.sleep(_DRAINING * self._second)
        with suppress(ApiError):  # somebody had no patience with it
            self._store.delete(POD, *running.key, propagation="", uid=pod["metadata"]["uid"], grace=0)

    def _start(self, pod: Object) -> RunningPod:
        """Give a new Pod addresses that no Pod has, and its proxy."""
        uid = pod["metadata"]["uid"]
        running = RunningPod(key_of(pod), self._free_number(), self._families)
        container = proxy_container(pod)
        if container is not None:
            addresses = {"podIP": running.addresses[0], "podIPs": [{"ip": each} for each in running.addresses]}
            placed = {**pod, "status": {**pod.get("status", {}), **addresses}}
            running.proxy = Proxy(self._store, self._tailnets, placed, container)
            for resource, name in running.proxy.sources:
                self._readers.setdefault((resource, Key(running.key.namespace, name)), set()).add(uid)
        self._running[uid] = running
        return running

    def _stop(self, uid: str) -> None:
        running = self._running.pop(uid, None)
        if running is None:
            return
        self._numbers_taken.discard(running.number)
        if running.proxy is not None:
            for resource, name in running.proxy.sources:
                self._readers[resource, Key(running.key.namespace, name)].discard(uid)

    def _free_number(self) -> int:
        """Return the next number round the network, so that an address isn't soon used again."""
        number = next(number for number in self._numbers if number not in self._numbers_taken)
        self._numbers_taken.add(number)
        return number


def _unpulled(pod: Object) -> ContainerState | None:
    """Return the state of a Pod with an image that no registry has: that of a domain under .invalid; else None."""
    for container in pod["spec"].get("containers", ()):
        image = container.get("image", "")
        if image.partition("/")[0].endswith(".invalid"):
            message = f'Back-off pulling image "{image}": no such host'
            return ContainerState(ready=False, waits="ImagePullBackOff", message=message)
    return None


def node() -> Object:
    """Return the Node, ready."""
    addresses = [{"type": "InternalIP", "address": NODE_ADDRESS}, {"type": "Hostname", "address": NODE_NAME}]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "metadata": {"name": NODE_NAME, "labels": {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux"}},
        "status": {"addresses": addresses, "conditions": with_condition((), ready)},
    }


def _status(pod: Object, addresses: tuple[str, ...], state: ContainerState) -> Object:
    """Return the Pod's status; conditions of others are kept, and readiness gates are waited for."""
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
    for kind, holds in facts.items():
        conditions = with_condition(conditions, {"type": kind, "status": str(holds)})
    status = {
        "phase": "Pending" if state.waits == CREATING else "Running",
        "conditions": conditions,
        "hostIP": NODE_ADDRESS,
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
