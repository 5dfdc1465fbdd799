"""The take-over of a cluster from the Go operator: no proxy restarts, and none changes its name or its device."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from clustersim.tailnet import NewKey
from tsoperator.api.names import (
    ANNOTATION_DIGEST,
    FINALIZER,
    HA_INGRESS_FINALIZER,
    HA_SERVICE_FINALIZER,
    LABEL_SERVICE_NAME,
)
from tsoperator.api.objects import (
    DEPLOYMENT,
    ENDPOINTSLICE,
    POD,
    SECRET,
    SERVICE,
    STATEFULSET,
    Object,
    Resource,
    annotations,
    key_of,
    labels,
    uid,
)

from tests.operator import go_objects
from tests.operator.proxies import restarted, served_name
from tests.support.manifests import (
    DOMAIN,
    FQDN,
    backend,
    connector,
    dnsconfig,
    egress,
    exposed,
    ingress,
    load_balancer,
    proxy_class,
)
from tests.support.operator import NAMESPACE, Proxy, World, meant, running_operator

WEB = f"web.{DOMAIN}"
GATES = [f"gate-0.{DOMAIN}", f"gate-1.{DOMAIN}"]
GO_TIME = "2026-01-02T03:04:05Z"
GROUP_FINALIZERS = [HA_INGRESS_FINALIZER]
ROUTES = ["10.40.0.0/14", "192.168.0.0/24"]
ROUTER = connector(exitNode=True, replicas=2, hostnamePrefix="gate", subnetRouter={"advertiseRoutes": ROUTES})


def our_operator(world: World) -> AbstractAsyncContextManager[object]:
    """Run our operator with the settings that the Go operator had."""
    return running_operator(world, proxy_image=go_objects.IMAGE, firewall_mode="auto")


async def by_go(world: World, parent: Object, recording: go_objects.Recording, *hostnames: str) -> list[Object]:
    """Create *parent* with the Go operator's finalizer, and return the children that the Go operator makes for it.

    The last object is the StatefulSet.
    """
    leads_to = backend() if parent["kind"] == "Ingress" else parent
    await world.apply(*([leads_to] if leads_to is not parent else []), parent)
    live = await world.look(parent)
    await world.change(live, go_objects.held(live))
    keys = {hostname: world.control.create_key(NewKey(("tag:k8s",))).key for hostname in hostnames}
    address = (await world.look(leads_to))["spec"].get("clusterIP", "")
    return go_objects.proxy(live, recording, world.control_url, keys, address)


NFTABLES = {"name": "TS_DEBUG_FIREWALL_MODE", "value": "nftables"}
CLASS = proxy_class(statefulSet={"labels": {"team": "db"}, "pod": {"tailscaleContainer": {"env": [NFTABLES]}}})


async def egress_by_go(world: World, script: str = "", *, with_class: bool = False) -> Proxy:
    """Create the Go operator's proxy for an egress Service, and return the proxy.

    *script* is the init script of the Go operator's version; empty means that of the recorded objects.
    """
    service = egress(proxy_class="prod") if with_class else egress()
    *others, statefulset = await by_go(world, service, go_objects.EGRESS, "default-db")
    template = statefulset["spec"]["template"]
    # Somebody ran kubectl rollout restart.
    template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = GO_TIME
    if script:
        template["spec"]["initContainers"][0]["args"] = [script]
    if with_class:
        statefulset["metadata"]["labels"]["team"] = "db"
        template["spec"]["containers"][0]["env"].append(NFTABLES)
        await world.apply(CLASS)
    await world.apply(*others, statefulset)
    return await logged_in(world, egress())


async def exposed_by_go(world: World) -> Proxy:
    """Create the Go operator's proxy for a LoadBalancer Service, whose status shows the device; return the proxy."""
    await world.apply(*await by_go(world, load_balancer(), go_objects.EXPOSED, "default-lb"))
    proxy = await logged_in(world, load_balancer())
    ips = json.loads(proxy.state["device_ips"])
    entries = [{"hostname": f"default-lb.{DOMAIN}"}, *({"ip": ip} for ip in ips if ":" not in ip)]
    ready = {"type": "TailscaleProxyReady", "status": "True", "reason": "ProxyCreated", "message": "ProxyCreated"}
    status = {"loadBalancer": {"ingress": entries}, "conditions": [ready | {"lastTransitionTime": GO_TIME}]}
    await world.api.replace_status(SERVICE, {**await world.look(load_balancer()), "status": status})
    return proxy


async def ingress_by_go(world: World) -> Proxy:
    await world.apply(*await by_go(world, ingress(), go_objects.INGRESS, "web"))
    return await logged_in(world, ingress())


async def logged_in(world: World, parent: Object) -> Proxy:
    """Return the proxy of *parent* once it has logged in and its headless Service leads to its Pods."""

    async def there() -> Proxy | None:
        proxy = await world.proxy(parent)
        return proxy if proxy and "device_fqdn" in proxy.state and await endpoints(world, proxy) else None

    return await world.eventually(there)


async def endpoints(world: World, proxy: Proxy) -> list[Object]:
    """Return the ready endpoints of a proxy's headless Service."""
    selector = f"{LABEL_SERVICE_NAME}={key_of(proxy.service).name}"
    found = (await world.api.list(ENDPOINTSLICE, NAMESPACE, selector)).items
    return [each for obj in found for each in obj.get("endpoints") or () if each["conditions"]["ready"]]


async def dns_by_go(world: World, records: Mapping[str, list[str]]) -> None:
    """Create a DNSConfig with the Go operator's nameserver, and with *records* of IPv4 addresses."""
    await world.apply(dnsconfig())
    parent = await world.look(dnsconfig())
    await world.change(parent, go_objects.held(parent))
    document = json.dumps({"version": "v1alpha1", "ip4": records}, separators=(",", ":"))
    await world.apply(*go_objects.nameserver(parent, document))
    await world.settled()  # its Pod exists


LEFT = {
    "egress": (egress(), egress_by_go),
    "egress of a later version": (egress(), partial(egress_by_go, script=go_objects.SYSCTL_OF_1_103)),
    "egress with a class": (egress(), partial(egress_by_go, with_class=True)),
    "load balancer": (load_balancer(), exposed_by_go),
    "ingress": (ingress(), ingress_by_go),
}


@pytest.mark.parametrize(("obj", "by_go"), LEFT.values(), ids=LEFT)
async def test_a_proxy_of_the_go_operator_stays_unchanged(
    cluster: World, obj: Object, by_go: Callable[[World], Awaitable[Proxy]]
) -> None:
    before = await by_go(cluster)
    parent, device_names = await cluster.look(obj), await cluster.device_names()
    async with our_operator(cluster):
        await cluster.eventually(lambda: adopted(cluster, before))
        assert not await cluster.writes_when_left_alone()
        after = await cluster.proxy(obj)
    assert after is not None
    assert (after.name, after.pod_uid) == (before.name, before.pod_uid)
    assert after.statefulset["spec"] == before.statefulset["spec"]
    assert ([key.used for key in cluster.control.keys.values()], await cluster.device_names()) == ([True], device_names)
    if obj == load_balancer():  # the status of the Service showed the proxy already
        assert await cluster.look(obj) == parent


async def adopted(world: World, proxy: Proxy) -> bool:
    return ANNOTATION_DIGEST in annotations(await world.look(proxy.statefulset))


async def test_a_change_of_the_class_of_a_proxy_that_was_taken_over_takes_effect_without_a_restart(
    cluster: World,
) -> None:
    before = await egress_by_go(cluster, with_class=True)

    async def team() -> str | None:
        return labels(await cluster.look(before.statefulset)).get("team")

    async with our_operator(cluster):
        await cluster.eventually(lambda: adopted(cluster, before))
        await cluster.change(CLASS, {"spec": {"statefulSet": {"labels": None}}})
        await cluster.becomes(team, None)
        assert not await restarted(cluster, before, egress())


async def test_the_replicas_of_a_connector_of_the_go_operator_stay_unchanged_and_are_deleted_with_the_connector(
    cluster: World,
) -> None:
    await cluster.apply(*await by_go(cluster, ROUTER, go_objects.CONNECTOR, "gate-0", "gate-1"))
    await cluster.becomes(cluster.device_names, GATES)
    await cluster.settled()
    before = await specs(cluster, STATEFULSET), await pods(cluster)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(ROUTER, "ConnectorReady"), "ConnectorCreated")
        await cluster.settled()
        assert (await specs(cluster, STATEFULSET), await pods(cluster)) == before
        assert len(await cluster.children(SECRET, ROUTER)) == len(cluster.control.keys) == 2
        assert [device["hostname"] for device in (await cluster.look(ROUTER))["status"]["devices"]] == GATES
        await cluster.delete(ROUTER)
        await cluster.eventually(lambda: cluster.gone(ROUTER))
    assert (await cluster.leftovers(ROUTER), await cluster.device_names()) == ([], [])


async def specs(world: World, resource: Resource) -> dict[str, Object]:
    return {key_of(obj).name: obj["spec"] for obj in (await world.api.list(resource, NAMESPACE)).items}


async def pods(world: World) -> set[str]:
    return {uid(pod) for pod in (await world.api.list(POD, NAMESPACE)).items}


async def test_names_resolve_during_the_whole_take_over_of_a_cluster(cluster: World) -> None:
    proxy = await egress_by_go(cluster)
    await ingress_by_go(cluster)
    await dns_by_go(cluster, {FQDN: proxy.addresses[:1], "gone.tail1234.ts.net": ["192.0.2.1"]})
    before = await pods(cluster), await specs(cluster, DEPLOYMENT)

    async def resolved_names() -> list[str]:
        return sorted(name for name, addresses in (await cluster.records()).items() if addresses)

    with cluster.store.subscribe(SIM_CONFIGMAP) as changes:
        async with our_operator(cluster):
            await cluster.becomes(resolved_names, [FQDN, WEB])
            await cluster.becomes(lambda: cluster.reason(dnsconfig(), "NameserverReady"), "NameserverCreated")
            assert not await cluster.writes_when_left_alone()
        written = [json.loads(change.object["data"]["records.json"]) for change in await changes.batch()]
    assert [document["ip4"][FQDN] for document in written] == [proxy.addresses[:1]] * len(written)
    assert (await pods(cluster), await specs(cluster, DEPLOYMENT)) == before


async def grouped_by_go(world: World) -> Object:
    """Create an egress Service of a ProxyGroup as the Go operator leaves it; return its ClusterIP Service."""
    await world.apply(egress(proxy_group="group"))
    parent = await world.look(egress())
    service = go_objects.grouped(parent, "group")
    await world.change(parent, go_objects.held(parent))
    external_name = f"{key_of(service).name}.tailscale.svc.cluster.local"
    await world.change(parent, {"spec": {"type": "ExternalName", "externalName": external_name}})
    await world.apply(service)
    return await world.look(service)


async def test_a_service_keeps_its_place_and_its_name_while_its_proxygroup_is_gone(cluster: World) -> None:
    grouped = await grouped_by_go(cluster)
    service = await cluster.look(egress())
    await dns_by_go(cluster, {FQDN: [grouped["spec"]["clusterIP"]]})
    async with our_operator(cluster):
        await cluster.becomes(cluster.records, {FQDN: grouped["spec"]["clusterIPs"]})
        await cluster.becomes(lambda: cluster.reason(egress(), "TailscaleEgressSvcValid"), "ProxyGroupNotReady")
        assert not await cluster.writes_when_left_alone()
        live = await cluster.look(egress())
        assert (live["spec"], live["metadata"]["finalizers"]) == (service["spec"], service["metadata"]["finalizers"])
        assert meant(await cluster.look(grouped)) == meant(grouped)
        await cluster.delete(egress())
        await cluster.eventually(lambda: cluster.gone(egress()))
    assert await cluster.gone(grouped)


async def test_a_take_over_keeps_the_certificate_of_an_ingress_that_a_proxygroup_serves(cluster: World) -> None:
    await cluster.apply(backend(), ingress(proxy_group="group"))
    parent = await cluster.look(ingress())
    await cluster.change(parent, {"metadata": {"finalizers": [*GROUP_FINALIZERS, FINALIZER]}})
    certificate = go_objects.certificate(parent, "group", WEB)
    await cluster.apply(certificate)

    async def finalizers() -> object:
        return (await cluster.look(ingress()))["metadata"]["finalizers"]

    async with our_operator(cluster):
        await cluster.becomes(finalizers, GROUP_FINALIZERS)
        await cluster.settled()
    assert not await cluster.gone(certificate)


@pytest.mark.parametrize(
    "parent", [ingress(proxy_group="group"), exposed(proxy_group="group")], ids=["Ingress", "Service"]
)
async def test_a_deleted_object_loses_the_go_operators_finalizer_if_it_has_no_tailscale_service(
    cluster: World, parent: Object
) -> None:
    finalizer = HA_INGRESS_FINALIZER if parent["kind"] == "Ingress" else HA_SERVICE_FINALIZER
    held = {**parent, "metadata": {**parent["metadata"], "finalizers": ["example.org/theirs", finalizer]}}
    await cluster.apply(held)

    async def finalizers() -> object:
        return (await cluster.look(parent))["metadata"]["finalizers"]

    async with our_operator(cluster):
        await cluster.settled()
        assert await finalizers() == ["example.org/theirs", finalizer]
        await cluster.delete(parent)
        await cluster.becomes(finalizers, ["example.org/theirs"])
        assert not await cluster.writes_when_left_alone()


async def test_a_proxy_is_deleted_with_its_parent_if_a_user_deletes_the_parent_before_or_after_the_take_over(
    cluster: World,
) -> None:
    await egress_by_go(cluster)
    await ingress_by_go(cluster)
    await dns_by_go(cluster, {})
    await cluster.delete(egress())
    async with our_operator(cluster):
        await cluster.becomes(lambda: served_name(cluster, ingress()), WEB)
        await cluster.delete(ingress(), dnsconfig())
        for parent in (egress(), ingress(), dnsconfig()):
            await cluster.eventually(partial(cluster.gone, parent))
        assert [await cluster.leftovers(parent) for parent in (egress(), ingress())] == [[], []]
        await cluster.becomes(lambda: specs(cluster, STATEFULSET), {})
    assert await cluster.device_names() == []
