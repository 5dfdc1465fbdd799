"""Applies, reads and deletes objects in the cluster by kubectl, and runs commands in Pods."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from tsoperator.api.names import (
    LABEL_SECRET_TYPE,
    PARENT_CONNECTOR,
    PARENT_INGRESS,
    PARENT_PEERRELAY,
    PARENT_PROXYGROUP,
    PARENT_RECORDER,
    PARENT_SERVICE,
    SECRET_DEVICE_ID,
    SECRET_TYPE_CONFIG,
)
from tsoperator.api.objects import Key, labels
from tsoperator.runtime.ownership import Owner

from tests.e2e.product import NAMESPACE, wait_ready
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually

Object = dict[str, Any]

_REMOUNTED = "example.org/remounted-at"
_CHILDREN = ("statefulsets", "services", "secrets")
_PARENTS = {
    "Service": PARENT_SERVICE,
    "Ingress": PARENT_INGRESS,
    "Connector": PARENT_CONNECTOR,
    "ProxyGroup": PARENT_PROXYGROUP,
    "PeerRelay": PARENT_PEERRELAY,
    "Recorder": PARENT_RECORDER,
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster, controlled as its admin. The methods raise BedError if kubectl fails."""

    bed: Bed

    def apply(self, *objs: Object) -> None:
        """Apply manifests."""
        self.bed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objs))

    def get(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """Return an object, or None if it doesn't exist."""
        words = ["get", resource, name, "--ignore-not-found", "-o", "json", *_within(namespace)]
        text = self.bed.kubectl(*words)
        found: Object | None = json.loads(text) if text.strip() else None
        return found

    def listed(
        self, resource: str, namespace: str = NAMESPACE, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        """Return the objects of *resource* in *namespace* that have all *labels*.

        *resource* can name several kinds, separated by commas.
        """
        selector = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        listed = self.bed.kubectl("get", resource, "-o", "json", f"--selector={selector}", *_within(namespace))
        items: list[Object] = json.loads(listed)["items"]
        return items

    def delete(self, resource: str, name: str, namespace: str = "") -> None:
        """Delete one object, but don't wait until it is gone. Do nothing if the object doesn't exist."""
        self.bed.kubectl("delete", resource, name, "--ignore-not-found", "--wait=false", *_within(namespace))

    def children(self, parent: Object, resources: str = ",".join(_CHILDREN)) -> list[Object]:
        """Return the children of *parent* in the operator's namespace, of the given *resources*."""
        metadata = parent["metadata"]
        owner = Owner(_PARENTS[parent["kind"]], Key(metadata.get("namespace", ""), metadata["name"]))
        return self.listed(resources, NAMESPACE, owner.labels)

    def proxy(self, parent: Object, seconds: float = 120) -> Object:
        """Wait until a parent's proxy has a ready Pod, and return the Pod."""

        def ready() -> list[Object]:
            return [pod for pod in self.children(parent, "pods") if is_ready(pod)]

        return eventually(ready, f"a ready proxy Pod for {parent['metadata']['name']}", seconds)[0]

    def device_proxy(self, parent: Object, seconds: float = 120) -> Object:
        """Wait until a parent's proxy has a ready Pod that has reported its device, and return the Pod.

        Before that report, the proxy doesn't know the devices that want to reach it. WireGuard repeats a failed attempt
        to connect only after five seconds.
        """
        pod = self.proxy(parent, seconds)

        def told() -> bool:
            if parent["kind"] == "Recorder":  # its Secrets have the ID only in the state of tailscaled
                return bool(self.look(parent).get("status", {}).get("devices"))
            secrets = self.children(parent, "secrets")
            states = [each for each in secrets if labels(each).get(LABEL_SECRET_TYPE) != SECRET_TYPE_CONFIG]
            return all(SECRET_DEVICE_ID in state.get("data", {}) for state in states)

        eventually(told, f"a device of {parent['metadata']['name']}", seconds)
        return pod

    def nameservers(self) -> list[Object]:
        """Return the nameserver's ready Pods, without an old Pod that is still terminating after an upgrade."""
        return [pod for pod in self.listed("pods", labels={"app": "nameserver"}) if is_ready(pod)]

    def remove(self, parent: Object, seconds: float = 120) -> None:
        """Delete *parent*, and wait until it and its proxy are gone."""
        metadata = parent["metadata"]
        named = (parent["kind"], metadata["name"], metadata.get("namespace", ""))
        self.delete(*named)

        def gone() -> bool:
            return self.get(*named) is None and not self.children(parent, ",".join([*_CHILDREN, "pods"]))

        eventually(gone, f"{metadata['name']} and its proxy gone", seconds)

    def look(self, parent: Object) -> Object:
        """Return *parent* as it is in the cluster now. Raises AssertionError if it doesn't exist."""
        metadata = parent["metadata"]
        found = self.get(parent["kind"], metadata["name"], metadata.get("namespace", ""))
        assert found, f"no {parent['kind']} {metadata['name']}"
        return found

    def annotate(self, parent: Object, *changes: str) -> None:
        """Set annotations (``name=value``), or remove them (``name-``), as a user does."""
        metadata = parent["metadata"]
        words = ["annotate", "--overwrite", parent["kind"], metadata["name"], *changes]
        self.bed.kubectl(*words, *_within(metadata.get("namespace", "")))

    def remount(self, namespace: str, labels: Mapping[str, str]) -> None:
        """Make the kubelet mount changed ConfigMaps at once in the Pods that have all *labels*.

        The kubelet does so when an annotation of a Pod changes, and otherwise once in 60 to 90 seconds.
        """
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        change = f"{_REMOUNTED}={time.time_ns()}"
        self.bed.kubectl("annotate", "--overwrite", "pods", f"--selector={selector}", change, *_within(namespace))

    def remount_dns(self) -> None:
        """Make the kubelet mount the Corefile of the cluster's DNS at once. CoreDNS loads it within some seconds."""
        self.remount("kube-system", {"k8s-app": "kube-dns"})

    def patch(self, parent: Object, change: Object) -> None:
        """Merge *change* into *parent*."""
        metadata = parent["metadata"]
        words = ["patch", parent["kind"], metadata["name"], "--type=merge", f"--patch={json.dumps(change)}"]
        self.bed.kubectl(*words, *_within(metadata.get("namespace", "")))

    def scale_operator(self, replicas: int) -> None:
        """Scale the operator's Deployment to *replicas*, and wait until this number of Pods is ready."""
        self.bed.kubectl("-n", NAMESPACE, "scale", "deployment/operator", f"--replicas={replicas}")
        if replicas:
            wait_ready(self.bed)
        else:
            eventually(lambda: not self.listed("pods", NAMESPACE, {"app": "operator"}), "the operator's end")

    def run_in(self, pod: Object, *words: str, timeout: float = 30) -> str:
        """Run a command in a Pod, and return its output."""
        metadata = pod["metadata"]
        return self.bed.kubectl("-n", metadata["namespace"], "exec", metadata["name"], "--", *words, timeout=timeout)

    def curl(self, pod: Object, *words: str) -> str:
        """Fetch a URL from a Pod, and return the body. Raises BedError if curl fails or the status is an error."""
        return self.run_in(pod, "curl", "-sS", "--fail", "--max-time", "3", *words)


def _within(namespace: str) -> Sequence[str]:
    return ["--namespace", namespace] if namespace else []


def is_ready(pod: Object) -> bool:
    """Tell whether a Pod is ready and not being deleted."""
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def condition(obj: Object, kind: str) -> Object:
    """Return the condition of type *kind*.

    Return an empty object if there is no such condition, or if it describes another generation of *obj*.
    """
    found = [each for each in obj.get("status", {}).get("conditions") or () if each["type"] == kind]
    generation = obj["metadata"].get("generation", 0)
    return next((each for each in found if each.get("observedGeneration", 0) in (0, generation)), {})


def identity(pod: Object) -> tuple[str, int]:
    """Return a Pod's UID, and how often its containers were restarted."""
    return pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))


def shown_hostnames(parent: Object) -> list[str]:
    """Return the host names in the load balancer status of a Service or an Ingress."""
    entries = parent.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return [entry["hostname"] for entry in entries if "hostname" in entry]


def pod_ip(pod: Object) -> str:
    """Return a Pod's address."""
    return str(pod["status"]["podIP"])


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a DNS server: its status, and the data of the records in its answer section."""

    rcode: str
    data: Sequence[str] = ()


def dig(bed: Bed, server: str, name: str, rtype: str = "A", *words: str) -> Answer:
    """Ask *server* from the node for the records of *name* with the type *rtype*, and return the answer.

    *words* are more arguments of dig. Raises BedError if the server answers none of three attempts of a second each.
    """
    question = ["dig", "+time=1", "+tries=3", "+noall", "+comments", "+answer", *words, f"@{server}", name, rtype]
    return parse_dig(bed.machines["node"].run(question, timeout=10))


def parse_dig(text: str) -> Answer:
    """Return the answer in *text*, the output of dig with +noall +comments +answer."""
    rcode, data = "", []
    for line in text.splitlines():
        if "status: " in line:
            rcode = line.partition("status: ")[2].partition(",")[0]
        elif line and not line.startswith(";"):
            data.append(line.split(maxsplit=4)[4])
    if not rcode:
        raise BedError(f"no answer: {text}")
    return Answer(rcode, tuple(sorted(data)))
