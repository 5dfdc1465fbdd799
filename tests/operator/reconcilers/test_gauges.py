"""The gauges that count the objects in a cluster, such as proxies, ProxyGroups and Tailnets."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

from clustersim.sim import ClusterSim
from clustersim.tailnetservices import TailscaleService
from clustersim.x509 import certificate, moment
from prometheus_client import CollectorRegistry
from tsoperator.api.objects import STATEFULSET, Key, Object
from tsoperator.api.owners import joined
from tsoperator.kube.client import KubeClient
from tsoperator.reconcilers.gauges import GroupGauges, RelayGauges, ServiceGauges, certificate_expiries, count_proxies
from tsoperator.reconcilers.operatordevice.ask import ask_of
from tsoperator.reconcilers.operatordevice.reconciler import proxy_sources
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.ownership import Owner
from tsoperator.sources import sources
from tsoperator.tailnet.devices import count_devices

from tests.support import manifests
from tests.support.cluster import put, running, until
from tests.support.objects import OPERATOR_NAMESPACE, egress_config, obj, settings, whole_secret
from tests.support.tailnets import running_tailnets, tailnet_client


def told(found: Object, type_: str, reason: str) -> Object:
    """Return the object *found* with two conditions, of which the second has the given type and *reason*."""
    conditions = [{"type": "Other", "status": "True", "reason": "Other"}, {"type": type_, "reason": reason}]
    return {**found, "status": {"conditions": conditions}}


def group(name: str, type_: str, reason: str) -> Object:
    return told(manifests.proxy_group(name, type=type_), "ProxyGroupReady", reason)


def relay(name: str, reason: str, *addresses: str) -> Object:
    made = told(manifests.peer_relay(name), "PeerRelayReady", reason)
    endpoints = [{"replica": number, "address": address, "port": 41641} for number, address in enumerate(addresses)]
    return {**made, "status": {**made["status"], "endpoints": endpoints}}


def proxy(name: str, parent: str, replicas: int) -> Object:
    """Return a proxy's StatefulSet. No Secret has a device for the proxy, so it is ready only with 0 *replicas*."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "example"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return obj(STATEFULSET, Key(OPERATOR_NAMESPACE, name), {"spec": spec}, labels=Owner(parent, Key("", name)).labels)


def with_certificates(name: str, days: dict[str, tuple[int, int]]) -> Object:
    """Return a Secret with a certificate for each domain, valid between the domain's two *days* after the epoch."""
    made = whole_secret(name, {}, Owner("ingress", Key("default", "shop")).labels)
    data = {"device_fqdn": "shop.tail1234.ts.net."}
    for domain, (starts, ends) in days.items():
        times = (moment(EPOCH + timedelta(days=each)) for each in (starts, ends))
        data |= {f"{domain}.crt": certificate(*times), f"{domain}.key": "key"}
    return {**made, "data": {key: b64encode(text.encode()).decode() for key, text in data.items()}}


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STATE: Object = {"_current-profile": "profile-1", "profile-1": {"Config": {"NodeID": "n1"}}}
THERE = [
    *(group(f"good-{number}", "egress", "ProxyGroupReady") for number in range(2)),
    group("slow", "egress", "ProxyGroupCreating"),
    group("web", "kube-apiserver", "ProxyGroupInvalid"),
    manifests.proxy_group("new", type="ingress"),
    egress_config("good-0", *(f"default-{number}" for number in range(3))),
    egress_config("web", "default-db"),
    *(told(manifests.tailnet(name), "TailnetReady", "TailnetValid") for name in "ab"),
    told(manifests.tailnet("c"), "TailnetReady", "InvalidOAuth"),
    relay("edge", "PeerRelayReady", "203.0.113.1", "203.0.113.2"),
    relay("gate", "EndpointsPending"),
    manifests.peer_relay("new"),
    proxy("up", "svc", 0),
    *(proxy(f"new-{number}", "svc", 1) for number in range(2)),
    proxy("router", "connector", 0),
    proxy("rec", "recorder", 0),
    whole_secret("rec-0", STATE, Owner("recorder", Key("", "rec")).labels),
    told(manifests.recorder("rec"), "RecorderReady", "RecorderCreated"),
    whole_secret("own", STATE),
    with_certificates("ts-shop-0", {"shop.tail1234.ts.net": (30, 60), "old.tail1234.ts.net": (0, 1)}),
    with_certificates("ts-shop-1", {"shop.tail1234.ts.net": (30, 90)}),
    with_certificates("portal.tail1234.ts.net", {"tls": (30, 50)}),
]
GAUGES = [
    ("tsoperator_certificate_expiry_timestamp_seconds", {"domain": "portal.tail1234.ts.net"}, 50 * 86400),
    ("tsoperator_certificate_expiry_timestamp_seconds", {"domain": "shop.tail1234.ts.net"}, 90 * 86400),
    ("tsoperator_devices", {"parent": "operator"}, 1),
    ("tsoperator_devices", {"parent": "recorder"}, 1),
    ("tsoperator_egress_entries", {"group": "good-0"}, 3),
    ("tsoperator_egress_entries", {"group": "good-1"}, 0),
    ("tsoperator_egress_entries", {"group": "slow"}, 0),
    ("tsoperator_peerrelay_endpoints", {"peerrelay": "edge"}, 2),
    ("tsoperator_peerrelay_endpoints", {"peerrelay": "gate"}, 0),
    ("tsoperator_peerrelay_endpoints", {"peerrelay": "new"}, 0),
    ("tsoperator_peerrelays", {"reason": ""}, 1),
    ("tsoperator_peerrelays", {"reason": "EndpointsPending"}, 1),
    ("tsoperator_peerrelays", {"reason": "PeerRelayReady"}, 1),
    ("tsoperator_proxies", {"parent": "connector", "ready": "false"}, 0),
    ("tsoperator_proxies", {"parent": "connector", "ready": "true"}, 1),
    ("tsoperator_proxies", {"parent": "recorder", "ready": "false"}, 0),
    ("tsoperator_proxies", {"parent": "recorder", "ready": "true"}, 1),
    ("tsoperator_proxies", {"parent": "svc", "ready": "false"}, 2),
    ("tsoperator_proxies", {"parent": "svc", "ready": "true"}, 1),
    ("tsoperator_proxygroups", {"reason": "", "type": "ingress"}, 1),
    ("tsoperator_proxygroups", {"reason": "ProxyGroupCreating", "type": "egress"}, 1),
    ("tsoperator_proxygroups", {"reason": "ProxyGroupInvalid", "type": "kube-apiserver"}, 1),
    ("tsoperator_proxygroups", {"reason": "ProxyGroupReady", "type": "egress"}, 2),
    ("tsoperator_recorders", {"reason": "RecorderCreated"}, 1),
    ("tsoperator_tailnets", {"reason": "InvalidOAuth"}, 1),
    ("tsoperator_tailnets", {"reason": "TailnetValid"}, 2),
]

OWNED = ("tsoperator_tailscale_services", {"tailnet": ""})


async def test_the_gauges_count_the_objects_in_the_cluster(sim: ClusterSim, client: KubeClient) -> None:
    await put(client, *THERE)
    served = ask_of(settings(operator_secret="own"))
    cache = Cache([*sources(OPERATOR_NAMESPACE), *proxy_sources(served)])
    registry = CollectorRegistry()
    registry.register(GroupGauges(cache, OPERATOR_NAMESPACE))
    registry.register(RelayGauges(cache))
    async with running(cache.follow(client)):
        await cache.synced()
        counted = [await count(cache) for count in (count_devices, count_proxies, certificate_expiries)]
        samples = [sample for family in (*registry.collect(), *counted) for sample in family.samples]
    found = [(each.name, each.labels, each.value) for each in samples]
    assert sorted(found, key=lambda each: (each[0], sorted(each[1].items()))) == GAUGES


async def test_a_gauge_counts_the_tailscale_services_that_the_operator_owns(
    sim: ClusterSim, client: KubeClient
) -> None:
    asked, cache, registry = [], Cache([]), CollectorRegistry()

    def operator_id() -> str:
        asked.append("ID")
        return "nUS"

    for name, owner in (("svc:web", "nUS"), ("svc:db", "nUS"), ("svc:other", "nTHEM")):
        sim.control.services.put(TailscaleService(name, ("tcp:443",), ("tag:k8s",), joined({}, owner)))
    async with (
        tailnet_client(sim.control, sim.control_url) as opened,
        running_tailnets(opened, client, cache, settings()) as tailnets,
    ):
        registry.register(ServiceGauges(tailnets, operator_id))
        assert (registry.get_sample_value(*OWNED), asked) == (0, [])
        await until(lambda: all(tailnets.service("", each).service for each in ("web", "db", "other")))
        await until(lambda: registry.get_sample_value(*OWNED) == 2)
