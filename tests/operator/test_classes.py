"""Proxies that have a ProxyClass: they are as it says, and only what changes restarts them."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from clustersim import objects
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.names import ANNOTATION_GIVEN
from tsoperator.api.objects import SERVICE, SERVICEMONITOR, STATEFULSET, Key, Object, annotations, key_of, labels, uid
from tsoperator.kube.errors import NotFound

from tests.operator import go_objects
from tests.operator.test_adoption import logged_in, new_key, our_operator
from tests.support.manifests import DOMAIN, FQDN, backend, connector, egress, ingress, proxy_class
from tests.support.operator import NAMESPACE, Proxy, World, new_world, running_operator

READY = "ProxyClassReady"
PATCHES = ("patch", "servicemonitors")
METRICS: Object = {"metrics": {"enable": True}}
MONITORED: Object = {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"release": "prom"}}}}


def container(**fields: Any) -> Object:
    """The spec of a class that changes the container of tailscaled."""
    return {"statefulSet": {"pod": {"tailscaleContainer": fields}}}


FOO: Object = container(env=[{"name": "FOO", "value": "1"}])
BAD: Object = container(image="FOO bar")


async def reason(world: World, name: str = "prod") -> str:
    """Return whether the ProxyClass *name* is ready, and why."""
    return await world.reason(proxy_class(name), READY)


async def made(world: World, parent: Object) -> Proxy:
    """Wait until nothing is left to do and the proxy of *parent* has logged in; return it."""

    async def there() -> Proxy | None:
        proxy = await world.proxy(parent)
        return proxy if proxy and "device_fqdn" in proxy.state and "AuthKey" not in proxy.config else None

    await world.eventually(there)
    await world.settled()
    return await world.eventually(there)


async def with_class(world: World, parent: Object, **spec: Any) -> Proxy:
    """Return the proxy of *parent*, which names the ProxyClass ``prod``, a new one with *spec*."""
    await world.apply(proxy_class(**spec), parent)
    return await made(world, parent)


async def variable(world: World, parent: Object, name: str = "FOO") -> str | None:
    """Return a variable of the proxy's container."""
    statefulsets = await world.children(STATEFULSET, parent)
    return Proxy({}, statefulsets[0], {}, {}).env.get(name) if statefulsets else None


@pytest.mark.parametrize("families", [("IPv6",), ("IPv6", "IPv4")], ids=["IPv6 alone", "IPv6 first"])
async def test_metrics_are_served_at_an_ipv6_address(families: tuple[str, ...]) -> None:
    async with new_world(SimOptions(families=families)) as world, running_operator(world):
        before = await with_class(world, connector(exitNode=True, proxyClass="prod"), **METRICS)
        assert before.env["TS_LOCAL_ADDR_PORT"] == "[$(POD_IP)]:9002"
        assert not await world.writes_when_left_alone()
        await world.change(connector(), {"spec": {"hostname": "gate"}})
        await world.becomes(world.device_names, [f"gate.{DOMAIN}"])
        assert (await made(world, connector())).pod_uid == before.pod_uid


async def test_a_proxy_that_runs_at_an_ipv6_address_serves_metrics_too() -> None:
    async with new_world(SimOptions(families=("IPv6",))) as world, running_operator(world):
        before = await with_class(world, connector(exitNode=True, proxyClass="prod"), **FOO)
        await world.change(proxy_class(), {"spec": METRICS})
        await world.eventually(lambda: restarted(world, before, connector()))
        assert (await made(world, connector())).env["TS_DEBUG_ADDR_PORT"] == "[$(POD_IP)]:9001"


@pytest.mark.parametrize("kind", ["annotation", "label"])
async def test_a_proxy_is_as_its_class_says(world: World, kind: str) -> None:
    service = egress(proxy_class="prod")
    if kind == "label":
        service["metadata"]["labels"] = {"tailscale.com/proxy-class": "prod"}
        service["metadata"]["annotations"]["tailscale.com/proxy-class"] = "other"
    proxy = await with_class(world, service, **FOO)
    assert proxy.env["FOO"] == "1"
    assert await world.reason(service) == "ProxyCreated"
    assert not await world.writes_when_left_alone()


async def test_an_operator_that_starts_again_writes_nothing(world: World) -> None:
    await with_class(world, egress(proxy_class="prod"), **FOO, **METRICS)
    await world.apply(backend(), ingress(proxy_class="prod"))
    await made(world, ingress())
    assert not await world.writes_during(world.restart())


AMOUNTS = container(
    resources={"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "2000m", "memory": "2048Mi"}}
)
TWICE = container(env=[{"name": "TS_USERSPACE", "value": "false"}, {"name": "A", "value": ""}, {"name": "A"}])
PLACED: Object = {
    "statefulSet": {
        "pod": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 30, "effect": "NoExecute"}],
            "affinity": {"podAntiAffinity": {}, "nodeAffinity": {}},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
            ],
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "securityContext": {"fsGroup": 0, "sysctls": []},
            "imagePullSecrets": [{"name": "pull"}],
        }
    }
}


@pytest.mark.parametrize("spec", [AMOUNTS, TWICE, PLACED], ids=["amounts", "variables", "placement"])
async def test_what_the_api_server_writes_its_own_way_is_left_alone(world: World, spec: Object) -> None:
    await with_class(world, egress(proxy_class="prod"), **spec)
    assert not await world.writes_when_left_alone()
    await world.annotate(egress(), {"example.org/look": "again"})
    assert not {plural for _, _, plural in await world.writes_when_left_alone()} & {"statefulsets"}


async def test_the_default_class_is_that_of_proxies_which_name_none(cluster: World) -> None:
    none = egress("none", f"second.{DOMAIN}", proxy_class="")
    await cluster.apply(proxy_class(**FOO), egress(), none, backend(), ingress())
    async with running_operator(cluster, proxy_class="prod"):
        assert (await made(cluster, egress())).env["FOO"] == "1"
        assert (await made(cluster, ingress())).env["FOO"] == "1"
        assert "FOO" not in (await made(cluster, none)).env


class Edit(NamedTuple):
    spec: Object
    restarts: bool


EDITS = {
    "variable": Edit(container(env=[{"name": "FOO", "value": "2"}]), restarts=True),
    "label of Pods": Edit({"statefulSet": {"pod": {"labels": {"tier": "db"}}}}, restarts=True),
    "label": Edit({"statefulSet": {"labels": {"team": "db"}}}, restarts=False),
    "annotation": Edit({"statefulSet": {"annotations": {"example.org/note": "x"}}}, restarts=False),
    "routes": Edit({"tailscale": {"acceptRoutes": True}}, restarts=False),
    "metrics of an egress proxy": Edit(METRICS, restarts=False),
    "certificates of an egress proxy": Edit({"useLetsEncryptStagingEnvironment": True}, restarts=False),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_a_change_of_a_class_restarts_only_what_it_changes(world: World, edit: Edit) -> None:
    before = await with_class(world, egress(proxy_class="prod"), **FOO)
    await world.change(proxy_class(), {"spec": edit.spec})
    if edit.restarts:
        await world.eventually(lambda: restarted(world, before))
    after = await made(world, egress())
    assert (after.pod_uid != before.pod_uid, after.name) == (edit.restarts, before.name)
    assert await world.reason(egress()) == "ProxyCreated"
    assert not await world.writes_when_left_alone()


async def restarted(world: World, before: Proxy, parent: Object | None = None) -> bool:
    """Tell whether another Pod is ready."""
    proxy = await world.proxy(parent or egress())
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def test_a_change_of_a_class_is_no_news_to_an_ingress(world: World) -> None:
    await world.apply(backend())
    await with_class(world, ingress(proxy_class="prod"), **FOO)
    before = await world.events(ingress())
    await world.change(proxy_class(), {"spec": container(env=[{"name": "FOO", "value": "2"}])})
    await world.becomes(lambda: variable(world, ingress()), "2")
    await world.settled()
    assert await world.events(ingress()) == before


async def test_a_change_of_a_class_is_no_news_to_services_and_connectors(world: World) -> None:
    router = connector(proxyClass="prod", exitNode=True)
    await world.apply(router)
    await with_class(world, egress(proxy_class="prod"), **FOO)
    await world.becomes(lambda: world.reason(router, "ConnectorReady"), "ConnectorCreated")
    await world.settled()
    before = [(await world.look(parent))["status"] for parent in (router, egress())]
    with world.store.subscribe(objects.SERVICE, objects.CONNECTOR) as changes:
        await world.change(proxy_class(), {"spec": container(env=[{"name": "FOO", "value": "2"}])})
        await world.becomes(lambda: variable(world, router), "2")
        await world.becomes(lambda: variable(world, egress()), "2")
        await world.settled()
        changes.close()
        shown = [change.object["status"] async for change in changes if "conditions" in change.object["status"]]
    assert [status for status in shown if status not in before] == []


async def test_routes_of_others_are_accepted_as_the_class_says(world: World) -> None:
    await with_class(world, egress(proxy_class="prod"), tailscale={"acceptRoutes": True})
    assert (await made(world, egress())).config["acceptRoutes"] is True
    await world.change(proxy_class(), {"spec": {"tailscale": None}})
    await world.becomes(lambda: accepts_routes(world), False)


async def accepts_routes(world: World) -> object:
    """Return what the proxy is told of routes."""
    proxy = await world.proxy(egress())
    return proxy and proxy.config["acceptRoutes"]


@pytest.mark.parametrize("gone", ["class named no more", "class without what it said"])
async def test_without_its_class_a_proxy_is_as_one_that_never_had_one(world: World, gone: str) -> None:
    plain = egress("plain", f"second.{DOMAIN}")
    everything = {**FOO, "tailscale": {"acceptRoutes": True}}
    everything["statefulSet"] |= {"labels": {"team": "db"}, "annotations": {"example.org/note": "x"}}
    await with_class(world, egress(proxy_class="prod"), **everything)
    [statefulset] = await world.children(STATEFULSET, egress())
    assert (labels(statefulset)["team"], annotations(statefulset)["example.org/note"]) == ("db", "x")
    await world.change(statefulset, {"metadata": {"labels": {"theirs": "1"}}})
    if gone == "class named no more":
        await world.annotate(egress(), {"tailscale.com/proxy-class": None})
    else:
        await world.change(proxy_class(), {"spec": {"statefulSet": None, "tailscale": None}})
    await world.becomes(lambda: variable(world, egress()), None)
    after = await made(world, egress())
    await world.apply(plain)
    assert names(after) == names(await made(world, plain))
    assert labels(after.statefulset).get("theirs") == "1"
    assert not {"team"} & labels(after.statefulset).keys()
    assert not {"example.org/note", ANNOTATION_GIVEN} & annotations(after.statefulset).keys()
    assert after.config["acceptRoutes"] is False


def names(proxy: Proxy) -> list[object]:
    """Return the names of what the proxy's Pods and their container have."""
    pod = proxy.statefulset["spec"]["template"]
    [only] = pod["spec"]["containers"]
    return [pod["metadata"].keys(), pod["spec"].keys(), only.keys(), [each["name"] for each in only["env"]]]


async def test_a_class_that_becomes_invalid_leaves_what_runs(world: World) -> None:
    before = await with_class(world, egress(proxy_class="prod"), **FOO)
    await world.change(proxy_class(), {"spec": BAD})
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    assert not await world.writes_when_left_alone()
    after = await made(world, egress())
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    await world.change(proxy_class(), {"spec": FOO | container(image=None)})
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")


async def test_a_proxy_waits_for_its_class(world: World) -> None:
    service = egress(proxy_class="prod")
    await world.apply(service, backend(), ingress(proxy_class="prod"))
    await world.becomes(lambda: world.reason(service), "ProxyFailed")
    await world.apply(proxy_class(**BAD))
    await world.becomes(lambda: world.reason(service), "ProxyPending")
    assert [await world.leftovers(parent) for parent in (service, ingress())] == [[], []]
    await world.change(proxy_class(), {"spec": FOO | container(image="example.org/tailscale:v1")})
    assert (await made(world, service)).env.get("FOO") is None
    await made(world, ingress())


async def test_a_class_that_is_deleted_leaves_what_runs(world: World) -> None:
    before = await with_class(world, egress(proxy_class="prod"), **FOO)
    await world.delete(proxy_class())
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    assert not await world.writes_when_left_alone()
    assert (await made(world, egress())).pod_uid == before.pod_uid
    await world.delete(egress())
    await world.eventually(lambda: world.gone(egress()))
    assert await world.leftovers(egress()) == []


async def measured(world: World) -> list[str]:
    """Return the names of Services that lead to metrics."""
    selector = "tailscale.com/metrics-target,tailscale.com/managed=true"
    return [key_of(obj).name for obj in (await world.api.list(SERVICE, NAMESPACE, selector)).items]


async def measured_ingress(world: World, **spec: Any) -> Proxy:
    """Return the proxy of an Ingress that serves metrics."""
    await world.apply(backend())
    proxy = await with_class(world, ingress(proxy_class="prod"), **(spec or METRICS))
    await world.becomes(lambda: measured(world), [f"{proxy.name}-metrics"])
    await world.settled()
    return proxy


async def test_metrics_are_served_and_can_be_found(world: World) -> None:
    proxy = await measured_ingress(world)
    service = await world.find(SERVICE, f"{proxy.name}-metrics")
    assert service is not None
    assert (proxy.env["TS_ENABLE_METRICS"], proxy.env["TS_LOCAL_ADDR_PORT"]) == ("true", "$(POD_IP):9002")
    assert service["spec"]["selector"].items() <= labels(proxy.pod).items()
    assert labels(service)["ts_prom_job"] == "ts_ingress_resource_default_web"
    assert not await world.writes_when_left_alone()


async def test_metrics_that_are_not_wanted_any_more_go(world: World) -> None:
    await measured_ingress(world)
    await world.change(proxy_class(), {"spec": {"metrics": {"enable": False}}})
    await world.becomes(lambda: measured(world), [])
    assert "TS_ENABLE_METRICS" not in (await made(world, ingress())).env
    assert not await world.writes_when_left_alone()


async def test_what_leads_to_metrics_goes_with_the_ingress(world: World) -> None:
    await measured_ingress(world)
    await world.delete(ingress())
    await world.eventually(lambda: world.gone(ingress()))
    assert (await measured(world), await world.leftovers(ingress())) == ([], [])
    assert not await world.writes_when_left_alone()


async def test_an_egress_proxy_serves_no_metrics(world: World) -> None:
    proxy = await with_class(world, egress(proxy_class="prod"), **METRICS)
    assert (await measured(world), "TS_ENABLE_METRICS" in proxy.env) == ([], False)


async def test_a_metrics_service_that_is_deleted_comes_back(world: World) -> None:
    proxy = await measured_ingress(world)
    service = await world.find(SERVICE, f"{proxy.name}-metrics")
    assert service is not None
    await world.delete(service)

    async def back() -> bool:
        found = await world.find(SERVICE, f"{proxy.name}-metrics")
        return found is not None and uid(found) != uid(service)

    await world.eventually(back)
    assert not await world.writes_when_left_alone()


async def test_a_metrics_service_that_is_edited_is_put_right(world: World) -> None:
    proxy = await measured_ingress(world)
    service = await world.find(SERVICE, f"{proxy.name}-metrics")
    assert service is not None
    await world.change(service, {"spec": {"selector": {"app": "other"}}})

    async def spec() -> object:
        return (await world.look(service))["spec"]

    await world.becomes(spec, {**service["spec"], "selector": {**service["spec"]["selector"], "app": "other"}})
    await world.change(service, {"spec": {"selector": {"app": None}, "ports": [{"name": "metrics", "port": 1}]}})
    await world.becomes(spec, service["spec"])
    assert not await world.writes_when_left_alone()


async def monitor_labels(world: World) -> Object | None:
    """Return the labels of the one ServiceMonitor; None without one."""
    try:
        found = (await world.api.list(SERVICEMONITOR, NAMESPACE)).items
    except NotFound:  # the kind is yet to come
        return None
    return dict(labels(found[0])) if found else None


async def test_a_service_monitor_follows_the_class(cluster: World, monitoring: Object) -> None:
    await cluster.apply(monitoring)
    await cluster.eventually(lambda: serves_monitors(cluster))
    async with running_operator(cluster):
        proxy = await measured_ingress(cluster, **MONITORED)
        await cluster.eventually(lambda: monitor_labels(cluster))
        own = dict(labels(await cluster.look(proxy_service(proxy))))
        assert await monitor_labels(cluster) == {**own, "release": "prom"}
        assert not await cluster.writes_when_left_alone()
        await cluster.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": {"labels": None}}}})
        await cluster.becomes(lambda: monitor_labels(cluster), own)
        await cluster.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": None}}})
        await cluster.becomes(lambda: monitor_labels(cluster), None)
        assert await measured(cluster) == [f"{proxy.name}-metrics"]
        assert not await cluster.writes_when_left_alone()


async def test_a_service_monitor_without_its_labels_is_given_them_back_and_never_patched(
    world: World, monitoring: Object
) -> None:
    await world.apply(monitoring)
    await world.eventually(lambda: serves_monitors(world))
    await measured_ingress(world, **MONITORED)
    wanted = await world.eventually(lambda: monitor_labels(world))
    [monitor] = (await world.api.list(SERVICEMONITOR, NAMESPACE)).items
    await world.settled()
    before = patches(world)
    await world.change(monitor, {"metadata": {"labels": None}})
    await world.becomes(lambda: monitor_labels(world), wanted)
    await world.settled()
    assert patches(world) - before == (world.simulation is not None)  # our own, above, which only that counts


def patches(world: World) -> int:
    """Return how many patches of ServiceMonitors there were."""
    return sum(count for (_, verb, plural), count in world.requests().items() if (verb, plural) == PATCHES)


async def test_a_strangers_service_monitor_is_said_to_be_in_the_way(cluster: World, monitoring: Object) -> None:
    await cluster.apply(monitoring)
    await cluster.eventually(lambda: serves_monitors(cluster))
    async with running_operator(cluster):
        proxy = await measured_ingress(cluster, **METRICS)
    stranger = {**proxy_service(proxy), "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}
    await cluster.apply({**stranger, "spec": {"selector": {}, "endpoints": []}})
    theirs = await cluster.look(stranger)
    await cluster.change(proxy_class(), {"spec": MONITORED})
    async with running_operator(cluster):
        await cluster.eventually(lambda: in_the_way(cluster, key_of(stranger)))
    assert await cluster.look(stranger) == theirs


async def in_the_way(world: World, key: Key) -> bool:
    """Tell whether an Event says that the ServiceMonitor named *key* is in the way."""
    return f"ServiceMonitor {key} is in the way" in (await world.events(ingress())).get("ProxyFailed", "")


async def serves_monitors(world: World) -> bool:
    """Tell whether the API server knows ServiceMonitors."""
    try:
        await world.api.list(SERVICEMONITOR, NAMESPACE)
    except NotFound:
        return False
    return True


def proxy_service(proxy: Proxy) -> Object:
    """What names the metrics Service of *proxy*."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": f"{proxy.name}-metrics"},
    }


async def test_a_service_monitor_is_made_once_the_prometheus_operator_is_there(
    world: World, monitoring: Object
) -> None:
    await world.apply(backend(), proxy_class(**MONITORED), ingress(proxy_class="prod"))
    await world.becomes(lambda: reason(world), "ProxyClassInvalid")
    assert await world.leftovers(ingress()) == []
    await world.apply(monitoring)
    await made(world, ingress())
    await world.eventually(lambda: monitor_labels(world))


PRODUCT = (proxy_class(**FOO, **METRICS), egress(proxy_class="prod"), backend(), ingress(proxy_class="prod"))


async def wrong(world: World) -> list[str]:
    """Say what of PRODUCT is not as it should be."""
    facts = {
        "class": await reason(world) == "ProxyClassValid",
        "egress": await world.proxy(egress()) is not None and await variable(world, egress()) == "1",
        "ingress": await world.proxy(ingress()) is not None and await variable(world, ingress()) == "1",
        "condition": await world.reason(egress()) == "ProxyCreated",
        "metrics": len(await measured(world)) == 1,
    }
    return [name for name, good in facts.items() if not good]


@pytest.mark.full
@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::4], ids=str)
async def test_the_order_of_things_does_not_matter(world: World, order: Sequence[int]) -> None:
    for number in order:
        await world.apply(PRODUCT[number])
    await world.becomes(lambda: wrong(world), [])


WRITES = [("update", "proxyclasses"), ("create", "services"), ("create", "statefulsets"), ("update", "services")]


@pytest.mark.simulated
@pytest.mark.parametrize(("verb", "plural"), WRITES)
async def test_any_write_may_fail_on_the_way_there(cluster: World, verb: str, plural: str) -> None:
    await cluster.apply(*PRODUCT)
    for status in (500, 409, 500):
        cluster.sim.faults.fail(Failure(status, verb=verb, plural=plural))
    async with running_operator(cluster):
        await cluster.becomes(lambda: wrong(cluster), [])
        assert cluster.sim.faults.to_json()["fail"] == []


@pytest.mark.simulated
@pytest.mark.parametrize("plural", ["services", "statefulsets", "secrets"])
async def test_any_write_may_fail_on_the_way_out(cluster: World, plural: str) -> None:
    await cluster.apply(*PRODUCT)
    async with running_operator(cluster):
        await cluster.becomes(lambda: wrong(cluster), [])
    await cluster.delete(*PRODUCT[1:])
    for status in (500, 409, 500):
        cluster.sim.faults.fail(Failure(status, verb="delete", plural=plural))
    async with running_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(egress()))
        await cluster.eventually(lambda: cluster.gone(ingress()))
        assert (await measured(cluster), await cluster.leftovers(ingress())) == ([], [])


@pytest.mark.simulated
@pytest.mark.parametrize("verb", ["create", "update", "delete"])
async def test_writing_a_service_monitor_may_fail(cluster: World, verb: str) -> None:
    cluster.sim.serve_kind(objects.SERVICEMONITOR)
    for status in (500, 409, 500):
        cluster.sim.faults.fail(Failure(status, verb=verb, plural="servicemonitors"))
    async with running_operator(cluster):
        await measured_ingress(cluster, **MONITORED)
        await cluster.eventually(lambda: monitor_labels(cluster))
        own = await monitor_labels(cluster)
        assert own is not None
        relabelled = {"metrics": {"serviceMonitor": {"labels": {"release": "other"}}}}
        await cluster.change(proxy_class(), {"spec": relabelled})
        await cluster.becomes(lambda: monitor_labels(cluster), own | {"release": "other"})
        await cluster.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": None}}})
        await cluster.becomes(lambda: monitor_labels(cluster), None)
        assert cluster.sim.faults.to_json()["fail"] == []


async def egress_by_go(world: World) -> Proxy:
    """Make what the Go operator makes of an egress Service with a class that sets a variable of its own."""
    spec = container(env=[{"name": "TS_DEBUG_FIREWALL_MODE", "value": "nftables"}])
    spec["statefulSet"]["labels"] = {"team": "db"}
    await world.apply(proxy_class(**spec), egress(proxy_class="prod"))
    parent = await world.look(egress())
    await world.change(parent, go_objects.held(parent))
    statefulset = go_objects.egress_statefulset(parent, FQDN)
    statefulset["metadata"]["labels"]["team"] = "db"
    container_spec = statefulset["spec"]["template"]["spec"]["containers"][0]
    container_spec["env"].append({"name": "TS_DEBUG_FIREWALL_MODE", "value": "nftables"})
    secret = go_objects.secret(parent, "default-db", world.control_url, new_key(world))
    await world.apply(go_objects.headless(parent, FQDN), secret, statefulset)
    return await logged_in(world, parent)


async def test_a_proxy_of_another_operator_with_a_class_is_kept_as_it_is(cluster: World) -> None:
    before = await egress_by_go(cluster)
    async with our_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(egress()), "ProxyCreated")
        after = await made(cluster, egress())
        assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
        assert not await cluster.writes_when_left_alone()
        await cluster.change(proxy_class(), {"spec": {"statefulSet": {"labels": None}}})
        await cluster.becomes(lambda: team(cluster), None)
        assert (await made(cluster, egress())).pod_uid == before.pod_uid


async def team(world: World) -> str | None:
    """Return a label of the proxy's StatefulSet."""
    return labels((await world.children(STATEFULSET, egress()))[0]).get("team")
