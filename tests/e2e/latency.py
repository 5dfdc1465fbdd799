"""How long the product takes on the real cluster: from an object that is applied to an answer that is right."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import CONFIGMAP, POD, SERVICE, STATEFULSET, Key, Object, Resource
from tsoperator.desired.children import Owner
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Changed, Listed, Selection, updates

from tests.e2e.cluster import is_ready
from tests.e2e.dnsprobe import Probe
from tests.e2e.product import NAMESPACE
from tests.e2e.workloads import egress_service

PATIENCE = 60.0  # seconds

Spans = Mapping[str, float]  # what was reached → seconds from the start


@dataclass(frozen=True, slots=True)
class Bench:
    """Measures one egress Service by MagicDNS name, whose answers a probe watches."""

    api: KubeClient
    probe: Probe
    key: Key
    fqdn: str

    async def apply(self) -> Spans:
        """Apply the Service; return the seconds until each of its stages."""
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            statefulset = group.create_task(self._first(STATEFULSET, lambda _: True))
            pod = group.create_task(self._first(POD, is_ready))
            records = group.create_task(self._first(CONFIGMAP, self._has_address))
            served = group.create_task(self._served(started))
            await self.api.create(SERVICE, egress_service(*self.key, tailnet_fqdn=self.fqdn))
        stages = {"statefulset": statefulset, "pod_ready": pod, "configmap": records, "served": served}
        return {name: task.result() - started for name, task in stages.items()}

    async def move(self) -> Spans:
        """Delete the proxy's Pod; return the seconds from the new Pod's address to each stage after it."""
        old = next(pod for pod in (await self.api.list(POD, NAMESPACE, self._labels)).items if is_ready(pod))
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            address = group.create_task(self._first(POD, lambda pod: _is_another(pod, old) and _address(pod)))
            ready = group.create_task(self._first(POD, lambda pod: _is_another(pod, old) and is_ready(pod)))
            served = group.create_task(self._served(started, _address(old)))
            await self.api.delete(POD, Key(NAMESPACE, old["metadata"]["name"]))
        stages = {"pod_ready": ready, "served": served}
        return {name: task.result() - address.result() for name, task in stages.items()}

    @property
    def _labels(self) -> str:
        labels = Owner(PARENT_SERVICE, self.key).labels
        return ",".join(f"{name}={value}" for name, value in labels.items())

    def _has_address(self, configmap: Object) -> bool:
        return f'"{self.fqdn}":["' in "".join((configmap.get("data") or {}).values())

    async def _first(self, resource: Resource, wanted: Callable[[Object], object]) -> float:
        """Return when the first object that is *wanted* was seen: the proxy's, or a ConfigMap."""
        selection = Selection(resource, NAMESPACE, "" if resource == CONFIGMAP else self._labels)
        async for update in updates(self.api, selection):
            match update:
                case Listed(items) if any(wanted(item) for item in items):
                    break
                case Changed(obj) if wanted(obj):
                    break
        return time.monotonic()

    async def _served(self, after: float, but: str = "") -> float:
        """Return when an address was first answered after a moment, another one than *but*."""

        def wait() -> float:
            right = self.probe.wait_for(
                lambda seen: bool(seen.addresses) and but not in seen.addresses, PATIENCE, after
            )
            return right.at

        return await asyncio.to_thread(wait)


def _is_another(pod: Object, old: Object) -> bool:
    return bool(pod["metadata"]["uid"] != old["metadata"]["uid"])


def _address(pod: Object) -> str:
    return str(pod.get("status", {}).get("podIP", ""))


def summary(rounds: Sequence[Spans]) -> dict[str, float]:
    """Return the median of each stage in seconds."""
    return {stage: round(statistics.median(spans[stage] for spans in rounds), 3) for stage in rounds[0]}


def table(title: str, medians: Spans) -> str:
    """Return one line for people."""
    return f"{title}: " + " · ".join(f"{stage} {seconds:.2f} s" for stage, seconds in medians.items())


RESULTS = Path(__file__).parents[2] / "build" / "e2e" / "latency.json"
