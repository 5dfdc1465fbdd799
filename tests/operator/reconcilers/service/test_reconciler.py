"""Egress Services and exposed Services on a cluster with a running operator: the tests check the resulting state."""

import json
from base64 import b64encode
from contextlib import AbstractAsyncContextManager

import pytest
from clustersim import objects as kinds
from clustersim.faults import Failure
from clustersim.loadbalancers import Shown
from tsoperator.api.objects import EVENT, SECRET, SERVICE, STATEFULSET, Key, Object, key_of, labels, uid
from tsoperator.api.rules import child_name
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.rewrites import AT_ONCE, LAG

from tests.support.manifests import DOMAIN, FQDN, backend, dnsconfig, egress, exposed, load_balancer
from tests.support.objects import endpoint, endpoint_slice
from tests.support.operator import NAMESPACE, Proxy, World, running_operator
from tests.support.rivals import Rival

NAME = f"default-lb.{DOMAIN}"
CLOUD = "db.example.org"
DEST_IP = "TS_DEST_IP"
EXPOSE, FUNNEL, FQDN_KEY = "tailscale.com/expose", "tailscale.com/funnel", "tailscale.com/tailnet-fqdn"
UNKNOWN = "the operator doesn't know annotation tailscale.com/exposed"
LB = load_balancer()
"""An exposed Service of type LoadBalancer. The functions of this module read whichever Service has its name."""


async def test_a_users_service_with_the_labels_of_a_proxys_service_is_not_taken_for_a_child(world: World) -> None:
    stranger = backend("copied")
    stranger["metadata"]["labels"] = Owner("svc", key_of(egress())).labels
    await world.apply(stranger, egress())
    proxy = await world.joined(egress())
    assert key_of(proxy.service).namespace == NAMESPACE
    await world.annotate(stranger, {"tailscale.com/expose": "true"})
    await world.becomes(lambda: world.reason(stranger), "ProxyCreated")
    await world.delete(egress())
    await world.eventually(lambda: world.gone(egress()))
    assert not await world.gone(stranger)


async def test_an_egress_service_is_ready_and_leads_to_its_proxy_as_soon_as_the_proxy_serves(world: World) -> None:
    world.control.silent.add("default-db")
    await world.apply(egress())
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    await world.settled()
    assert (await pointed(world), await world.records()) == (False, {})
    assert "once the proxy's Pod is ready and has joined the tailnet" in await message_of(world, egress())
    world.control.silent.clear()
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")
    assert await pointed(world)
    assert not await world.writes_when_left_alone()


@pytest.mark.parametrize("has_slice", [False, True])
async def test_an_egress_service_becomes_ready_even_if_its_endpoint_appears_after_everything_else(
    world: World, has_slice: bool
) -> None:
    world.control.silent.add("default-db")  # the test writes the proxy's report itself
    await world.apply(egress())
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    await world.settled()
    [service], [secret] = [await world.children(kind, egress()) for kind in (SERVICE, SECRET)]
    await world.change(secret, {"data": {"device_fqdn": b64encode(f"default-db.{DOMAIN}.".encode()).decode()}})
    made = endpoint_slice(key_of(service).name, endpoint("2001:db8::1"))
    metadata = {"namespace": NAMESPACE, "name": "late", "labels": {**service["metadata"]["labels"], **labels(made)}}
    late = {**made, "metadata": metadata, "addressType": "IPv6", "ports": []}
    if has_slice:
        await world.apply({**late, "endpoints": []})
    await world.settled()
    assert await world.reason(egress()) == "ProxyPending"
    await (world.change(late, {"endpoints": late["endpoints"]}) if has_slice else world.apply(late))
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")
    assert await pointed(world)


async def test_an_egress_service_stays_as_it_is_while_its_pod_is_replaced(world: World) -> None:
    await world.apply(egress())
    proxy = await world.joined(egress())

    async def replaced() -> None:
        await world.delete(proxy.pod)
        await world.joined(egress())

    written = await world.writes_during(replaced())
    assert not [request for request in written if "services" in request]


def rival(world: World) -> AbstractAsyncContextManager[Rival]:
    """Run a writer that reverts each change of the Service until the end of the block."""
    return Rival(egress(), {"spec": {"externalName": "placeholder"}}, leads_to_proxy).at_work(world)


def leads_to_proxy(service: Object) -> bool:
    """Tell whether *service* points at a proxy."""
    return "ts-db-" in service["spec"].get("externalName", "")


async def pointed(world: World) -> bool:
    """Tell whether the Service points at a proxy."""
    return leads_to_proxy(await world.look(egress()))


async def test_a_service_says_that_another_writer_reverts_its_spec_and_is_right_again_after_the_writer_stops(
    world: World,
) -> None:
    await world.apply(egress())
    await world.joined(egress())
    async with rival(world):
        await world.becomes(lambda: world.reason(egress()), "ProxyPending")
        message = (await world.events(egress()))["ExternalNameOverwritten"]
        assert (await message_of(world, egress()), "spec.externalName" in message) == (message, True)
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")
    assert await pointed(world)
    assert not await world.writes_when_left_alone()


@pytest.mark.simulated
async def test_the_operator_reports_reverts_of_a_service_even_if_it_cannot_write_the_status(world: World) -> None:
    world.sim.faults.fail(Failure(status=409, times=10**9, verb="update", plural="services"))
    await world.apply(egress())
    async with rival(world):
        await world.eventually(lambda: event(world, egress(), "ExternalNameOverwritten"))


@pytest.mark.simulated
async def test_the_operator_repeats_a_failed_write_of_a_service_without_the_wait_for_reverts(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    world.sim.faults.fail(Failure(status=409, times=AT_ONCE + 1, verb="patch", plural="services"))
    world.store.merge(kinds.SERVICE, *key_of(egress()), {"spec": {"externalName": "placeholder"}})
    await world.eventually(lambda: pointed(world), timeout=LAG - 1)
    assert [*await world.events(egress())] == ["ProxyCreated"]


TAGS, CLASS = "tailscale.com/tags", "tailscale.com/proxy-class"


@pytest.mark.parametrize(("fault", "reason"), [({TAGS: "wrong"}, "ProxyInvalid"), ({CLASS: "gone"}, "ProxyFailed")])
async def test_a_faulty_service_is_pointed_back_at_its_proxy_and_says_that_another_writer_reverts_its_spec(
    world: World, fault: Object, reason: str
) -> None:
    await world.apply(egress())
    await world.joined(egress())
    await world.annotate(egress(), fault)
    await world.becomes(lambda: world.reason(egress()), reason)
    await world.change(egress(), {"spec": {"externalName": "placeholder"}})
    await world.eventually(lambda: pointed(world))
    async with rival(world):
        await world.eventually(lambda: event(world, egress(), "ExternalNameOverwritten"))
    await world.eventually(lambda: pointed(world))
    assert await world.reason(egress()) == reason
    assert not await world.writes_when_left_alone()


@pytest.mark.simulated
async def test_a_service_is_pointed_back_at_its_proxy_while_the_api_server_refuses_another_step(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    world.sim.faults.fail(Failure(403, times=10**9, verb="patch", plural="secrets"))
    await world.annotate(egress(), {"tailscale.com/hostname": "orders"})
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    await world.change(egress(), {"spec": {"externalName": "placeholder"}})
    await world.eventually(lambda: pointed(world))
    async with rival(world):
        await world.eventually(lambda: event(world, egress(), "ExternalNameOverwritten"))


async def test_a_service_that_is_reverted_once_is_corrected_without_an_event(world: World) -> None:
    world.peer()
    await world.apply(egress())
    await world.joined(egress())
    await world.change(egress(), {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}})
    await world.eventually(lambda: pointed(world))
    await world.settled()
    assert (await world.reason(egress()), [*await world.events(egress())]) == ("ProxyCreated", ["ProxyCreated"])


@pytest.mark.simulated
async def test_the_operator_forgets_the_reverts_of_a_service_that_no_longer_asks_for_a_proxy(world: World) -> None:
    await world.apply(egress())
    await world.joined(egress())
    async with rival(world):
        await world.eventually(lambda: event(world, egress(), "ExternalNameOverwritten"))
    await world.annotate(egress(), {FQDN_KEY: None})
    await world.becomes(lambda: world.leftovers(egress()), [])
    await world.annotate(egress(), {FQDN_KEY: FQDN})
    await world.joined(egress())
    await world.change(egress(), {"spec": {"externalName": "placeholder"}})
    await world.eventually(lambda: pointed(world))
    await world.settled()
    assert await world.reason(egress()) == "ProxyCreated"


async def test_a_new_hostname_keeps_the_auth_key_of_a_proxy_that_has_yet_to_log_in(cluster: World) -> None:
    await cluster.apply(egress())
    name = f"{child_name('db', uid(await cluster.look(egress())))}-0"
    spec = {"containers": [{"name": "other", "image": "example.org/other:1"}]}
    blocker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "tailscale", "name": name}, "spec": spec}
    await cluster.apply(blocker)  # this Pod belongs to nobody, and keeps the StatefulSet from making its own
    async with running_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyPending")
        before = await config(cluster, name)
        await cluster.annotate(egress(), {"tailscale.com/hostname": "orders"})
        await cluster.becomes(lambda: config(cluster, name), before | {"Hostname": "orders"})
        await cluster.delete(blocker)
        statefulset = (await cluster.children(STATEFULSET, egress()))[0]
        await cluster.annotate(statefulset, {"example.org/try-again": "now"})  # makes the controller try again at once
        await cluster.becomes(cluster.device_names, [f"orders.{DOMAIN}"])
        assert ("AuthKey" in before, len(cluster.control.keys)) == (True, 1)


async def config(world: World, name: str) -> Object:
    """Return the newest configuration in the Secret named *name*."""
    return Proxy({}, {}, await world.api.get(SECRET, Key("tailscale", name)), {}).config


@pytest.mark.simulated
async def test_an_auth_key_is_not_used_if_the_tags_of_the_service_have_changed_since_it_was_minted(
    world: World,
) -> None:
    world.sim.faults.fail(Failure(403, times=1000, verb="create", plural="secrets"))
    await world.apply(egress())
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    await world.annotate(egress(), {"tailscale.com/tags": "tag:db"})
    await world.settled()
    world.sim.faults.clear()
    await world.joined(egress())
    assert [device.tags for device in world.control.devices.values()] == [("tag:db",)]


async def test_a_manifest_without_type_and_externalname_can_be_applied_again_without_a_write_of_the_operator(
    world: World,
) -> None:
    manifest = egress()
    manifest["spec"] = {"ports": [{"port": 5432}]}
    await world.apply(manifest)
    await world.joined(manifest)
    spec = (await world.look(manifest))["spec"]

    async def apply() -> None:
        await world.change(manifest, {"metadata": manifest["metadata"], "spec": {"ports": spec["ports"]}})
        await world.settled()

    assert (await world.writes_during(apply())).total() <= 1  # the change by the manifest itself
    assert (spec["type"], await pointed(world)) == ("ExternalName", True)


async def balanced(world: World) -> list[Object]:
    """Return the load balancer's entries in the Service's status, without the API server's defaults."""
    entries = ((await world.look(LB)).get("status") or {}).get("loadBalancer", {}).get("ingress") or []
    return [{name: value for name, value in entry.items() if name != "ipMode"} for entry in entries]


def shown(proxy: Proxy, name: str = NAME) -> list[Object]:
    """Return the load balancer's entries for *proxy*: its name and, for an IPv4 cluster IP, its IPv4 address."""
    ips = json.loads(proxy.state["device_ips"])
    return [{"hostname": name}, *({"ip": ip} for ip in ips if ":" not in ip)]


async def test_the_operator_restores_a_load_balancer_status_that_somebody_else_writes(world: World) -> None:
    await world.apply(LB)
    proxy = await world.joined(LB)
    service = await world.look(LB)
    await world.api.replace_status(SERVICE, {**service, "status": {"loadBalancer": {}}})
    await world.becomes(lambda: balanced(world), shown(proxy))


async def cluster_ips(world: World) -> list[str]:
    """Return the cluster IPs of the Service, IPv4 first."""
    return sorted((await world.look(LB))["spec"]["clusterIPs"], key=lambda address: ":" in address)


async def test_the_name_of_an_exposed_service_leads_pods_to_its_cluster_ips(world: World) -> None:
    dual = load_balancer()
    dual["spec"]["ipFamilyPolicy"] = "PreferDualStack"
    await world.apply(dnsconfig(), dual)
    await world.joined(LB)
    await world.becomes(world.records, {NAME: await cluster_ips(world)})
    assert not await world.writes_when_left_alone()
    await world.annotate(LB, {"tailscale.com/hostname": "shop"})
    await world.becomes(world.records, {f"shop.{DOMAIN}": await cluster_ips(world)})
    await world.annotate(LB, {"tailscale.com/cluster-dns": "false"})
    await world.becomes(world.records, {})
    await world.annotate(LB, {"tailscale.com/cluster-dns": None})
    await world.eventually(world.records)
    await world.delete(LB)
    await world.becomes(world.records, {})


async def test_a_name_has_no_record_while_its_service_has_no_cluster_ip_and_leads_to_each_new_cluster_ip(
    world: World,
) -> None:
    await world.apply(dnsconfig(), exposed())
    await world.joined(LB)
    await world.becomes(world.records, {NAME: [(await cluster_ips(world))[0]]})
    await world.change(LB, {"spec": {"type": "ExternalName", "externalName": CLOUD, "selector": None}})
    await world.becomes(world.records, {})
    assert f"let them use {CLOUD}" in await world.eventually(lambda: event(world, LB, "NoClusterName"))
    await world.settled()  # if a write comes between, the API server tries again, and refuses the address as taken
    await world.change(LB, {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "10.96.77.7"}})
    await world.becomes(world.records, {NAME: ["10.96.77.7"]})


async def test_a_service_says_why_it_has_no_name_in_the_cluster_while_there_is_a_dnsconfig(world: World) -> None:
    await world.apply(load_balancer("lb", 443, funnel="true"))
    await world.joined(LB)
    assert "NoClusterName" not in await world.events(LB)
    await world.apply(dnsconfig())
    told = await world.eventually(lambda: event(world, LB, "NoClusterName"))
    await world.becomes(lambda: says(world, told), True)
    assert not await world.writes_when_left_alone()
    assert await world.records() == {}
    await world.delete(dnsconfig())
    await world.becomes(lambda: says(world, told), False)
    await world.settled()
    await world.apply(dnsconfig())
    await world.becomes(lambda: says(world, told), True)


async def says(world: World, words: str) -> bool:
    """Tell whether the condition of the Service ends with *words*."""
    return (await message_of(world)).endswith(f"; {words}")


async def test_a_load_balancer_without_a_class_is_ours_only_if_a_setting_says_so(cluster: World) -> None:
    cluster.balancers.show(Shown.NOTHING)  # no cloud serves it
    await cluster.apply(load_balancer(class_=None))
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
    async with running_operator(cluster, default_load_balancer=True):
        proxy = await cluster.joined(LB)
        assert await balanced(cluster) == shown(proxy)
    async with running_operator(cluster):
        await cluster.eventually(lambda: let_go(cluster))
        assert (await balanced(cluster), await cluster.device_names()) == ([], [])


async def let_go(world: World) -> bool:
    """Tell whether the Service has no children, and neither our finalizer nor our status any more."""
    service = await world.look(LB)
    ours = "finalizers" in service["metadata"] or await world.condition(LB) or await balanced(world)
    return not ours and await world.leftovers(LB) == []


async def test_one_event_says_that_the_value_of_an_annotation_has_no_effect(cluster: World) -> None:
    plain = backend("lb")
    plain["metadata"]["annotations"] = {EXPOSE: "yes"}
    await cluster.apply(plain)
    for _ in range(2):
        async with running_operator(cluster):
            told = await cluster.eventually(lambda: event(cluster, LB, "IgnoredAnnotation"))
            assert (told, await cluster.condition(LB)) == (
                f'annotation {EXPOSE} is "yes", which turns nothing on: write "true", or remove it',
                None,
            )
            assert not await cluster.writes_when_left_alone()
    told_of = [each for each in (await cluster.api.list(EVENT)).items if each["reason"] == "IgnoredAnnotation"]
    assert [each["count"] for each in told_of] == [1]


async def test_an_operator_that_starts_writes_no_event_about_a_warning_that_is_already_in_the_condition(
    cluster: World,
) -> None:
    await cluster.apply(exposed(tailnet_fqdn=FQDN, exposed="true"))
    async with running_operator(cluster):
        proxy = await cluster.joined(LB)
        told = [words.partition(", ")[0] for words in (await message_of(cluster)).split("; ")]
        assert told == [f"it is reached in the tailnet as {NAME}", UNKNOWN, f"annotation {FQDN_KEY} has no effect"]
        assert proxy.env[DEST_IP] == (await cluster_ips(cluster))[0]
        assert sorted(await cluster.events(LB)) == ["IgnoredAnnotation", "ProxyCreated"]
    async with running_operator(cluster):
        assert not await cluster.writes_during(cluster.settled())


async def message_of(world: World, service: Object = LB) -> str:
    """Return the message of the condition of *service*, or an empty string without a condition."""
    condition = await world.condition(service)
    return condition.message if condition else ""


async def event(world: World, service: Object, reason: str) -> str:
    """Return the message of the Event on *service* with this *reason*, or an empty string without one."""
    return (await world.events(service)).get(reason, "")


async def test_funnel_is_turned_on_and_off_on_the_same_device_and_leaves_no_trace(world: World) -> None:
    await world.apply(load_balancer("lb", 443))
    first = await world.joined(LB)
    await world.annotate(LB, {FUNNEL: "true"})
    await world.becomes(lambda: balanced(world), [{"hostname": NAME}])
    public = await world.joined(LB)
    assert [name for name in public.state if name.startswith("_serve_")]
    await world.annotate(LB, {FUNNEL: None})

    async def rolled() -> bool:
        proxy = await world.proxy(LB)
        return proxy is not None and proxy.pod_uid != public.pod_uid

    await world.eventually(rolled)
    after = await world.joined(LB)
    assert [name for name in after.state if "serve" in name] == []
    assert (await balanced(world), after.env[DEST_IP]) == (shown(after), first.env[DEST_IP])
    assert len(world.control.keys) == 1
