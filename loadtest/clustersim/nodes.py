"""The control plane's work for nodes: it chooses nodes for new Pods, and acts when a kubelet falls silent."""

import asyncio
import math
from contextlib import suppress

from clustersim.conditions import timestamp, with_condition
from clustersim.controller import Key, key_of
from clustersim.objects import NODE, POD, Object, name_of
from clustersim.pods import is_deleting, is_ready
from clustersim.store import ApiError, Store

NODE_NAME = "node1"
UNREACHABLE = "node.kubernetes.io/unreachable"
MONITOR_GRACE = 50.0
"""Seconds without a report of a node's kubelet after which the control plane calls the node unreachable."""
POWER = "clustersim/power"
"""The annotation of a Node by which a user switches it off, with the value ``off``, and on again."""
TOLERATED = 300.0
"""Seconds for which a Pod stays on an unreachable node, unless its tolerations say otherwise."""

_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
_SILENT = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}


def node(name: str = NODE_NAME, number: int = 10) -> Object:
    """Return a ready Node. Its address depends on *number*."""
    addresses = [{"type": "InternalIP", "address": f"192.0.2.{number}"}, {"type": "Hostname", "address": name}]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"addresses": addresses, "conditions": with_condition((), _READY)},
    }


class Nodes:
    """The scheduler and the node lifecycle controller, for the nodes that were added."""

    def __init__(self, store: Store) -> None:
        self.monitor_grace = MONITOR_GRACE
        self._store = store
        self._addresses: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Add a node, and create its Node object unless that exists."""
        made = node(name, 10 + len(self._addresses))
        self._addresses[name] = made["status"]["addresses"][0]["address"]
        if self._store.find(NODE, "", name) is None:
            self._store.create(NODE, made)

    def address(self, name: str) -> str:
        """Return the address of a node. A node that was never added has the address of the first node."""
        return self._addresses.get(name, self._addresses[NODE_NAME])

    def place_for(self, pod: Object) -> str:
        """Return the name of the node for a new *pod*.

        It is the ready node with the fewest Pods of the same owner. Among several such nodes, it is the one with the
        fewest Pods. A single node takes all Pods, even if it isn't ready. Otherwise the name is empty if no node is
        ready.
        """
        if len(self._addresses) == 1:
            return NODE_NAME
        crowds: dict[str, tuple[int, int]] = {}
        for name in (each for each in self._addresses if is_ready(self._store.get(NODE, "", each))):
            others = self.pods(name)
            crowds[name] = (sum(_owners(each) == _owners(pod) for each in others), len(others))
        return min(crowds, key=lambda name: crowds[name], default="")

    def switched_off(self) -> set[str]:
        """Return the names of the nodes that a user has switched off, by the annotation `POWER`."""
        nodes = self._store.list(NODE)
        return {name_of(each) for each in nodes if (each["metadata"].get("annotations") or {}).get(POWER) == "off"}

    def pods(self, name: str) -> list[Object]:
        """Return the Pods on a node."""
        return [pod for pod in self._store.list(POD) if pod["spec"].get("nodeName") == name]

    def welcome(self, name: str) -> None:
        """Mark a node as ready again, because its kubelet reports again."""
        self._set_ready(name, _READY, [])

    async def miss(self, name: str) -> None:
        """Mark a node whose kubelet is silent, and the Pods on this node, as not ready. Later, delete the Pods.

        The delays are those of a control plane with Kubernetes' defaults, unless a test sets *monitor_grace*, or the
        tolerations of a Pod say otherwise. A Pod that tolerates an unreachable node without a limit stays.
        """
        await asyncio.sleep(self.monitor_grace)
        self._set_ready(name, _SILENT, [{"key": UNREACHABLE, "effect": each} for each in ("NoSchedule", "NoExecute")])
        for pod in filter(is_ready, self.pods(name)):
            conditions = with_condition(pod["status"]["conditions"], {"type": "Ready", "status": "False"})
            self._store.merge(POD, *key_of(pod), {"status": {"conditions": conditions}}, "status")
        await self._evict(name)

    async def _evict(self, name: str) -> None:
        """Delete the Pods of an unreachable node, each after the time for which it tolerates an unreachable node."""
        waited = 0.0
        limits = ((_tolerated(pod), key_of(pod), pod["metadata"]["uid"]) for pod in self.pods(name))
        for seconds, key, uid in sorted(each for each in limits if each[0] < math.inf):
            await asyncio.sleep(seconds - waited)
            waited = seconds
            self._delete(key, uid)

    def _delete(self, key: Key, uid: str) -> None:
        pod = self._store.find(POD, *key)
        if pod is not None and not is_deleting(pod):
            with suppress(ApiError):  # the Pod is gone, and a new Pod has its name
                self._store.delete(POD, *key, uid=uid)

    def _set_ready(self, name: str, condition: Object, taints: list[Object]) -> None:
        old = self._store.get(NODE, "", name)
        conditions = with_condition(old["status"]["conditions"], condition)
        self._store.merge(NODE, "", name, {"status": {"conditions": conditions}}, "status")
        timed = [{**taint, "timeAdded": timestamp()} for taint in taints]
        self._store.merge(NODE, "", name, {"spec": {"taints": timed or None}})


def _owners(pod: Object) -> list[str]:
    return [reference["uid"] for reference in pod["metadata"].get("ownerReferences", ())]


def _tolerated(pod: Object) -> float:
    """Return the number of seconds for which *pod* stays on an unreachable node."""
    matching = [each for each in pod["spec"].get("tolerations") or () if _tolerates(each)]
    if not matching:
        return TOLERATED
    return min((each["tolerationSeconds"] for each in matching if "tolerationSeconds" in each), default=math.inf)


def _tolerates(toleration: Object) -> bool:
    return toleration.get("key", UNREACHABLE) == UNREACHABLE and toleration.get("effect") in (None, "", "NoExecute")
