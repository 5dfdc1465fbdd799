"""The gauges of what is in a cluster."""

from typing import NamedTuple

from clustersim.sim import ClusterSim
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import CONFIGMAP, PROXYGROUP, STATEFULSET, TAILNET, Key, Object, resource_of
from tsoperator.desired.children import Owner
from tsoperator.desired.egressgroup import Entry, group_owner, render_entries
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.gauges import GroupGauges, ProxyGauges
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources

from tests.support.cluster import running
from tests.support.objects import OPERATOR_NAMESPACE, obj


class Gauge(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def told(obj: Object, type_: str, reason: str) -> Object:
    """Return *obj* with a condition besides another."""
    conditions = [{"type": "Other", "status": "True", "reason": "Other"}, {"type": type_, "reason": reason}]
    return {**obj, "status": {"conditions": conditions}}


def group(name: str, type_: str, reason: str = "") -> Object:
    made = {**_named(PROXYGROUP.api_version, PROXYGROUP.kind, name), "spec": {"type": type_}}
    return told(made, "ProxyGroupReady", reason) if reason else made


def tailnet(name: str, reason: str) -> Object:
    spec = {"spec": {"credentials": {"secretName": name}}}
    return told({**_named(TAILNET.api_version, TAILNET.kind, name), **spec}, "TailnetReady", reason)


def config(name: str, entries: int) -> Object:
    """The ConfigMap of the group *name*."""
    rendered = render_entries({f"default-{number}": Entry("", "100.64.0.1", frozenset()) for number in range(entries)})
    made = _named(CONFIGMAP.api_version, CONFIGMAP.kind, f"{name}-egress-config")
    metadata = {**made["metadata"], "namespace": OPERATOR_NAMESPACE, "labels": group_owner(name).labels}
    return {**made, "metadata": metadata, "binaryData": {"egress-services": rendered}}


def proxy(name: str, parent: str, replicas: int) -> Object:
    """A proxy's StatefulSet. It serves if it wants no replicas, because it has no Secret with a device."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "example"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return obj(STATEFULSET, Key(OPERATOR_NAMESPACE, name), {"spec": spec}, labels=Owner(parent, Key("", name)).labels)


def _named(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


THERE = [
    *(group(f"good-{number}", "egress", "ProxyGroupReady") for number in range(2)),
    group("slow", "egress", "ProxyGroupCreating"),
    group("web", "ingress", "NotSupportedYet"),
    group("new", "ingress"),
    config("good-0", 3),
    config("web", 1),
    *(tailnet(name, "TailnetValid") for name in "ab"),
    tailnet("c", "InvalidOAuth"),
    proxy("up", "svc", 0),
    *(proxy(f"new-{number}", "svc", 1) for number in range(2)),
    proxy("router", "connector", 0),
]

GAUGES = [
    Gauge("tsoperator_proxies", {"parent": "svc", "ready": "true"}, 1),
    Gauge("tsoperator_proxies", {"parent": "svc", "ready": "false"}, 2),
    Gauge("tsoperator_proxies", {"parent": "connector", "ready": "true"}, 1),
    Gauge("tsoperator_proxies", {"parent": "connector", "ready": "false"}, 0),
    Gauge("tsoperator_proxygroups", {"type": "egress", "reason": "ProxyGroupReady"}, 2),
    Gauge("tsoperator_proxygroups", {"type": "egress", "reason": "ProxyGroupCreating"}, 1),
    Gauge("tsoperator_proxygroups", {"type": "ingress", "reason": "NotSupportedYet"}, 1),
    Gauge("tsoperator_proxygroups", {"type": "ingress", "reason": ""}, 1),
    Gauge("tsoperator_egress_entries", {"group": "good-0"}, 3),
    Gauge("tsoperator_egress_entries", {"group": "good-1"}, 0),
    Gauge("tsoperator_egress_entries", {"group": "slow"}, 0),
    Gauge("tsoperator_tailnets", {"reason": "TailnetValid"}, 2),
    Gauge("tsoperator_tailnets", {"reason": "InvalidOAuth"}, 1),
]


async def test_what_is_there_is_counted(sim: ClusterSim, client: KubeClient) -> None:
    for there in THERE:
        stored = await client.create(resource_of(there), there)
        if "status" in there:
            await client.replace_status(resource_of(there), {**stored, "status": there["status"]})
    cache, registry = Cache(sources(OPERATOR_NAMESPACE)), CollectorRegistry()
    registry.register(ProxyGauges(cache))
    registry.register(GroupGauges(cache, OPERATOR_NAMESPACE))
    async with running(cache.follow(client)):
        await cache.synced()
        samples = [sample for family in registry.collect() for sample in family.samples]
    assert sorted((each.name, sorted(each.labels.items()), each.value) for each in samples) == sorted(
        (name, sorted(labels.items()), value) for name, labels, value in GAUGES
    )
