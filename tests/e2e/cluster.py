"""The cluster as a test speaks of it: objects applied, looked up and deleted by kubectl, commands run in Pods."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from tsoperator.api.names import PARENT_INGRESS, PARENT_SERVICE
from tsoperator.api.objects import Key
from tsoperator.desired.children import Owner

from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually

Object = dict[str, Any]

_CHILDREN = ("statefulsets", "services", "secrets")
_PARENTS = {"Service": PARENT_SERVICE, "Ingress": PARENT_INGRESS}


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, asked as its admin. Its methods raise BedError when kubectl fails."""

    bed: Bed

    def apply(self, *objs: Object) -> None:
        """Apply manifests."""
        self.bed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objs))

    def get(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """Return one object, None if it isn't there."""
        words = ["get", resource, name, "--ignore-not-found", "-o", "json", *_within(namespace)]
        text = self.bed.kubectl(*words)
        found: Object | None = json.loads(text) if text.strip() else None
        return found

    def listed(
        self, resource: str, namespace: str = NAMESPACE, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        """Return objects (of several resources, separated by commas) that have all *labels*."""
        selector = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        listed = self.bed.kubectl("get", resource, "-o", "json", f"--selector={selector}", *_within(namespace))
        items: list[Object] = json.loads(listed)["items"]
        return items

    def delete(self, resource: str, name: str, namespace: str = "") -> None:
        """Delete one object without waiting for its end; one that is gone is fine."""
        self.bed.kubectl("delete", resource, name, "--ignore-not-found", "--wait=false", *_within(namespace))

    def children(self, parent: Object, resources: str = ",".join(_CHILDREN)) -> list[Object]:
        """Return what the operator made for a Service or Ingress."""
        metadata = parent["metadata"]
        owner = Owner(_PARENTS[parent["kind"]], Key(metadata["namespace"], metadata["name"]))
        return self.listed(resources, NAMESPACE, owner.labels)

    def proxy(self, parent: Object, seconds: float = 60) -> Object:
        """Wait for the ready Pod of a parent's proxy, and return it."""

        def ready() -> list[Object]:
            return [pod for pod in self.children(parent, "pods") if is_ready(pod)]

        return eventually(ready, f"a ready proxy Pod for {parent['metadata']['name']}", seconds)[0]

    def remove(self, parent: Object, seconds: float = 60) -> None:
        """Delete a Service or Ingress and wait until it and its proxy are gone."""
        metadata = parent["metadata"]
        self.delete(parent["kind"], metadata["name"], metadata["namespace"])

        def gone() -> bool:
            there = self.get(parent["kind"], metadata["name"], metadata["namespace"])
            return there is None and not self.children(parent, ",".join([*_CHILDREN, "pods"]))

        eventually(gone, f"{metadata['name']} and its proxy gone", seconds)

    def run_in(self, pod: Object, *words: str, timeout: float = 30) -> str:
        """Run a command in a Pod and return what it prints."""
        metadata = pod["metadata"]
        return self.bed.kubectl("-n", metadata["namespace"], "exec", metadata["name"], "--", *words, timeout=timeout)

    def curl(self, pod: Object, *words: str) -> str:
        """Fetch a URL from a Pod, failing where the answer isn't a good one."""
        return self.run_in(pod, "curl", "-sS", "--fail", "--max-time", "3", *words)


def _within(namespace: str) -> Sequence[str]:
    return ["--namespace", namespace] if namespace else []


def is_ready(pod: Object) -> bool:
    """Tell whether a Pod is ready and not on its way out."""
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def pod_ip(pod: Object) -> str:
    """Return a Pod's address."""
    return str(pod["status"]["podIP"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a DNS server said: the status, and the data of the records in the answer section."""

    rcode: str
    data: Sequence[str] = ()


def dig(bed: Bed, server: str, name: str, rtype: str = "A", *words: str) -> Answer:
    """Ask a DNS server from the node. Raises BedError when there is no answer in a second."""
    question = ["dig", "+time=1", "+tries=1", "+noall", "+comments", "+answer", *words, f"@{server}", name, rtype]
    return parse_dig(bed.machines["node"].run(question, timeout=10))


def parse_dig(text: str) -> Answer:
    """Read what dig prints with +noall +comments +answer."""
    rcode, data = "", []
    for line in text.splitlines():
        if "status: " in line:
            rcode = line.partition("status: ")[2].partition(",")[0]
        elif line and not line.startswith(";"):
            data.append(line.split(maxsplit=4)[4])
    if not rcode:
        raise BedError(f"no answer: {text}")
    return Answer(rcode, tuple(sorted(data)))
