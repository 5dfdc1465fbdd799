"""A cluster that the Go operator has run in is taken over: no proxy restarts, changes its name or its device."""

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import pytest
from clustersim.faults import Failure
from clustersim.objects import CONFIGMAP as SIM_CONFIGMAP
from clustersim.tailnet import NewKey
from tsoperator.api.names import ANNOTATION_DIGEST, FINALIZER, LABEL_SERVICE_NAME
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
    uid,
)

from tests.operator import go_objects
from tests.support.manifests import DOMAIN, FQDN, backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.operator import NAMESPACE, Proxy, World, running_operator

WEB = f"web.{DOMAIN}"
GATES = [f"gate-0.{DOMAIN}", f"gate-1.{DOMAIN}"]
GO_TIME = "2026-01-02T03:04:05Z"
GROUP_FINALIZERS = ["tailscale.com/ingress-pg-finalizer"]
HANDLERS = "${TS_CERT_DOMAIN}:443"


def our_operator(world: World) -> AbstractAsyncContextManager[object]:
    """Run our operator with the settings that the Go operator had."""
    return running_operator(world, proxy_image=go_objects.IMAGE, firewall_mode="auto")


def new_key(world: World) -> str:
    """Mint an auth key, as the Go operator did."""
    return world.control.create_key(NewKey(("tag:k8s",))).key


async def egress_by_go(world: World, version: str = "1.102") -> Proxy:
    """Make what the Go operator makes of an egress Service, and return the proxy once it has logged in."""
    await world.apply(egress())
    parent = await world.look(egress())
    await world.change(parent, go_objects.held(parent))
    await world.apply(
        go_objects.headless(parent, FQDN),
        go_objects.secret(parent, "default-db", world.control_url, new_key(world)),
        go_objects.egress_statefulset(parent, FQDN, go_objects.SYSCTL[version]),
    )
    return await logged_in(world, parent)


async def exposed_by_go(world: World) -> Proxy:
    """Make what the Go operator makes of a LoadBalancer Service, its status too, and return the proxy."""
    await world.apply(load_balancer())
    parent = await world.look(load_balancer())
    await world.change(parent, go_objects.held(parent))
    await world.apply(
        go_objects.headless(parent),
        go_objects.secret(parent, "default-lb", world.control_url, new_key(world)),
        go_objects.exposed_statefulset(parent),
    )
    proxy = await logged_in(world, parent)
    ips = json.loads(proxy.state["device_ips"])
    entries = [{"hostname": f"default-lb.{DOMAIN}"}, *({"ip": ip} for ip in ips if ":" not in ip)]
    ready = {"type": "TailscaleProxyReady", "status": "True", "reason": "ProxyCreated", "message": "ProxyCreated"}
    status = {"loadBalancer": {"ingress": entries}, "conditions": [ready | {"lastTransitionTime": GO_TIME}]}
    parent = await world.look(parent)
    await world.api.replace_status(SERVICE, {**parent, "status": status})
    return proxy


async def ingress_by_go(world: World) -> Proxy:
    """Make what the Go operator makes of an Ingress, and return the proxy once it has logged in."""
    await world.apply(backend(), ingress())
    parent = await world.look(ingress())
    await world.change(parent, go_objects.held(parent))
    address = (await world.look(backend()))["spec"]["clusterIP"]
    web = {HANDLERS: {"Handlers": {"/": {"Proxy": f"http://{address}:80/"}}}}
    serve_config = {"TCP": {"443": {"HTTPS": True}}, "Web": web}
    await world.apply(
        go_objects.headless(parent),
        go_objects.secret(parent, "web", world.control_url, new_key(world), serve_config),
        go_objects.ingress_statefulset(parent),
    )
    return await logged_in(world, parent)


async def logged_in(world: World, parent: Object) -> Proxy:
    """Return the proxy of *parent* once it has logged in and its headless Service leads to it."""

    async def there() -> Proxy | None:
        proxy = await world.proxy(parent)
        return proxy if proxy and "device_fqdn" in proxy.state and await endpoints(world, proxy) else None

    return await world.eventually(there)


async def endpoints(world: World, proxy: Proxy) -> list[Object]:
    """Return the endpoints of a proxy's headless Service that are ready."""
    selector = f"{LABEL_SERVICE_NAME}={key_of(proxy.service).name}"
    found = (await world.api.list(ENDPOINTSLICE, NAMESPACE, selector)).items
    return [each for obj in found for each in obj.get("endpoints") or () if each["conditions"]["ready"]]


async def dns_by_go(world: World, records: Mapping[str, list[str]]) -> None:
    """Make what the Go operator makes of a DNSConfig, with *records* of IPv4 addresses."""
    await world.apply(dnsconfig())
    parent = await world.look(dnsconfig())
    await world.change(parent, go_objects.held(parent))
    document = json.dumps({"version": "v1alpha1", "ip4": records}, separators=(",", ":"))
    await world.apply(*go_objects.nameserver(parent, document))
    await world.settled()  # its Pod is there


@pytest.mark.parametrize("version", go_objects.SYSCTL)
async def test_an_egress_proxy_is_kept_as_it_is(cluster: World, version: str) -> None:
    before = await egress_by_go(cluster, version)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated")
        await cluster.settled()
        after = await cluster.proxy(egress())
    assert after is not None
    assert (after.name, after.pod_uid, after.statefulset["spec"]) == (
        before.name,
        before.pod_uid,
        before.statefulset["spec"],
    )
    assert [key.used for key in cluster.control.keys.values()] == [True]
    assert await cluster.device_names() == [f"default-db.{DOMAIN}"]


async def test_an_exposed_services_proxy_is_kept_as_it_is_and_its_status_too(cluster: World) -> None:
    before = await exposed_by_go(cluster)
    service = await cluster.look(load_balancer())
    async with our_operator(cluster):
        await cluster.eventually(lambda: adopted(cluster, before))
        assert not await cluster.writes_when_left_alone()
        after = await cluster.proxy(load_balancer())
    assert after is not None
    assert (after.name, after.pod_uid, after.statefulset["spec"]) == (
        before.name,
        before.pod_uid,
        before.statefulset["spec"],
    )
    assert (len(cluster.control.keys), await cluster.look(load_balancer())) == (1, service)


async def adopted(world: World, proxy: Proxy) -> bool:
    """Tell whether our operator has put its mark on the StatefulSet."""
    return ANNOTATION_DIGEST in annotations(await world.look(proxy.statefulset))


async def test_an_ingress_proxy_is_kept_as_it_is(cluster: World) -> None:
    before = await ingress_by_go(cluster)
    async with our_operator(cluster):
        await cluster.eventually(lambda: shown(cluster))
        await cluster.settled()
        after = await cluster.proxy(ingress())
    assert after is not None
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert len(cluster.control.keys) == 1


async def shown(world: World) -> bool:
    """Tell whether the Ingress shows its name."""
    entries = ((await world.look(ingress())).get("status") or {}).get("loadBalancer", {}).get("ingress")
    return bool(entries) and entries[0]["hostname"] == WEB


async def exit_node_by_go(world: World) -> Object:
    """Make what the Go operator makes of a Connector with two replicas; return it once these have logged in."""
    await world.apply(connector(exitNode=True, replicas=2, hostnamePrefix="gate"))
    parent = await world.look(connector())
    await world.change(parent, go_objects.held(parent))
    keys = [new_key(world) for _ in GATES]
    await world.apply(go_objects.headless(parent), *go_objects.exit_node(parent, world.control_url, keys))
    await world.becomes(world.device_names, GATES)
    await world.settled()
    return parent


async def test_a_connectors_replicas_are_kept_as_they_are_and_go_with_it(cluster: World) -> None:
    parent = await exit_node_by_go(cluster)
    before = await specs(cluster, STATEFULSET), await pods(cluster)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(parent, "ConnectorReady"), "ConnectorCreated")
        await cluster.settled()
        assert (await specs(cluster, STATEFULSET), await pods(cluster)) == before
        assert len(await cluster.children(SECRET, parent)) == len(cluster.control.keys) == 2
        assert [device["hostname"] for device in (await cluster.look(parent))["status"]["devices"]] == GATES
        await cluster.delete(parent)
        await cluster.eventually(lambda: cluster.gone(parent))
    assert (await cluster.leftovers(parent), await cluster.device_names()) == ([], [])


async def test_the_nameserver_is_kept_as_it_is(cluster: World) -> None:
    await dns_by_go(cluster, {})
    before = await specs(cluster, DEPLOYMENT), await pods(cluster)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(dnsconfig(), "NameserverReady"), "NameserverCreated")
        await cluster.settled()
        assert (await specs(cluster, DEPLOYMENT), await pods(cluster)) == before


async def specs(world: World, resource: Resource) -> dict[str, Object]:
    """Return the specs of all objects of one kind."""
    return {key_of(obj).name: obj["spec"] for obj in (await world.api.list(resource, NAMESPACE)).items}


async def pods(world: World) -> set[str]:
    """Return which Pods there are."""
    return {uid(pod) for pod in (await world.api.list(POD, NAMESPACE)).items}


async def test_all_is_taken_over_with_names_that_exist_all_the_while_and_is_then_left_alone(cluster: World) -> None:
    proxy = await egress_by_go(cluster)
    await ingress_by_go(cluster)
    await dns_by_go(cluster, {FQDN: proxy.addresses[:1], "gone.tail1234.ts.net": ["192.0.2.1"]})
    before = await pods(cluster)
    with cluster.store.subscribe(SIM_CONFIGMAP) as changes:
        async with our_operator(cluster):
            await cluster.becomes(lambda: names(cluster), [FQDN, WEB])
            assert not await cluster.writes_when_left_alone()
        written = [json.loads(change.object["data"]["records.json"]) for change in await changes.batch()]
    assert [document["ip4"][FQDN] for document in written] == [proxy.addresses[:1]] * len(written)
    assert await pods(cluster) == before


async def names(world: World) -> list[str]:
    """Return the names that have an address."""
    return sorted(name for name, addresses in (await world.records()).items() if addresses)


async def grouped_by_go(world: World) -> Object:
    """Make what the Go operator makes of an egress Service that a ProxyGroup serves; return the Service of these."""
    await world.apply(egress(proxy_group="group"))
    parent = await world.look(egress())
    made = go_objects.grouped(parent, "group", FQDN)
    await world.change(parent, go_objects.held(parent))
    external_name = f"{key_of(made).name}.tailscale.svc.cluster.local"
    await world.change(parent, {"spec": {"type": "ExternalName", "externalName": external_name}})
    await world.apply(made)
    return await world.look(made)


async def test_what_a_proxygroup_serves_is_left_as_it_is_and_keeps_its_name(cluster: World) -> None:
    made = await grouped_by_go(cluster)
    service = await cluster.look(egress())
    await dns_by_go(cluster, {FQDN: [made["spec"]["clusterIP"]]})
    async with our_operator(cluster):
        await cluster.becomes(cluster.records, {FQDN: made["spec"]["clusterIPs"]})
        assert not await cluster.writes_when_left_alone()
    assert [await cluster.look(egress()), await cluster.look(made)] == [service, made]


async def test_a_service_of_a_proxygroup_that_is_deleted_says_what_it_waits_for_and_goes_with_that(
    cluster: World,
) -> None:
    made = await grouped_by_go(cluster)
    async with our_operator(cluster):
        await cluster.delete(egress())
        await cluster.eventually(lambda: waits(cluster))
        assert not await cluster.writes_when_left_alone()
        assert await cluster.look(made) == made
        await cluster.delete(made)
        await cluster.eventually(lambda: cluster.gone(egress()))
        assert await cluster.gone(made)


async def waits(world: World) -> bool:
    """Tell whether an Event says that a ProxyGroup has what is left."""
    return "ProxyGroup 'group' still serves" in (await world.events(egress())).get("ProxyGroupUnsupported", "")


async def test_a_proxy_whose_service_has_gone_to_a_proxygroup_goes_and_leaves_what_that_made(cluster: World) -> None:
    await hand_over(cluster)


WRITES = [("delete", "statefulsets"), ("delete", "services"), ("delete", "secrets"), ("update", "services")]


@pytest.mark.simulated
@pytest.mark.parametrize(("verb", "plural"), WRITES)
async def test_any_write_may_fail_while_a_service_goes_to_a_proxygroup(cluster: World, verb: str, plural: str) -> None:
    for status in (500, 409, 500):
        cluster.sim.faults.fail(Failure(status, verb=verb, plural=plural))
    await hand_over(cluster)
    assert cluster.sim.faults.to_json()["fail"] == []


async def hand_over(cluster: World) -> None:
    """Let a Service have a proxy and then a ProxyGroup, and see that only the proxy goes."""
    await egress_by_go(cluster)
    parent = await cluster.look(egress())
    made = go_objects.grouped(parent, "group")
    made["metadata"]["name"] = "ts-db-group"
    await cluster.apply(made)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated")
        await cluster.annotate(egress(), {"tailscale.com/proxy-group": "group"})
        await cluster.becomes(cluster.device_names, [])
        await cluster.becomes(lambda: cluster.condition(egress()), None)
    assert await cluster.leftovers(egress()) == ["services tailscale/ts-db-group"]
    assert (await cluster.look(egress()))["metadata"]["finalizers"] == parent["metadata"]["finalizers"]


async def test_the_certificate_of_an_ingress_that_a_proxygroup_serves_stays(cluster: World) -> None:
    await cluster.apply(backend(), ingress(proxy_group="group"))
    parent = await cluster.look(ingress())
    await cluster.change(parent, {"metadata": {"finalizers": [*GROUP_FINALIZERS, FINALIZER]}})
    certificate = go_objects.certificate(parent, "group", WEB)
    await cluster.apply(certificate)
    async with our_operator(cluster):
        await cluster.becomes(lambda: finalizers(cluster), GROUP_FINALIZERS)
        await cluster.settled()
    assert not await cluster.gone(certificate)


async def finalizers(world: World) -> list[str]:
    """Return the finalizers of the Ingress."""
    found: list[str] = (await world.look(ingress()))["metadata"]["finalizers"]
    return found


async def test_a_proxy_that_was_taken_over_can_be_changed(cluster: World) -> None:
    before = await egress_by_go(cluster)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated")
        await cluster.annotate(egress(), {"tailscale.com/tailnet-fqdn": f"second.{DOMAIN}"})
        await cluster.eventually(lambda: rolled(cluster, before))
        after = await cluster.proxy(egress())
    assert after is not None
    assert (after.name, after.env["TS_TAILNET_TARGET_FQDN"]) == (before.name, f"second.{DOMAIN}.")
    assert len(cluster.control.keys) == 1


async def rolled(world: World, before: Proxy) -> bool:
    """Tell whether another Pod is ready."""
    proxy = await world.proxy(egress())
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def test_what_was_taken_over_goes_with_its_parent(cluster: World) -> None:
    await egress_by_go(cluster)
    await ingress_by_go(cluster)
    await dns_by_go(cluster, {})
    async with our_operator(cluster):
        await cluster.eventually(lambda: shown(cluster))
        await cluster.delete(egress(), ingress(), dnsconfig())
        await cluster.eventually(lambda: cluster.gone(egress()))
        await cluster.eventually(lambda: cluster.gone(ingress()))
        await cluster.eventually(lambda: cluster.gone(dnsconfig()))
        assert [await cluster.leftovers(parent) for parent in (egress(), ingress())] == [[], []]
        await cluster.becomes(lambda: specs(cluster, STATEFULSET), {})
    assert await cluster.device_names() == []


async def test_what_was_deleted_while_no_operator_ran_is_cleaned_up(cluster: World) -> None:
    await egress_by_go(cluster)
    await cluster.delete(egress())
    async with our_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(egress()))
    assert await cluster.leftovers(egress()) == []
    assert await cluster.device_names() == []


async def test_a_service_that_a_group_of_proxies_serves_is_left_alone(cluster: World) -> None:
    service = egress(proxy_group="egress")
    await cluster.apply(service)
    parent = await cluster.look(service)
    await cluster.change(parent, go_objects.held(parent))
    between = go_objects.headless(parent)
    between["metadata"]["labels"] |= {"tailscale.com/proxy-group": "egress", "tailscale.com/svc-type": "egress"}
    between["spec"] = {"ports": [{"port": 10080}]}
    await cluster.apply(between)
    before = await cluster.look(service), await cluster.look(between)
    async with our_operator(cluster):
        assert not await cluster.writes_when_left_alone()
    assert (await cluster.look(service), await cluster.look(between)) == before
