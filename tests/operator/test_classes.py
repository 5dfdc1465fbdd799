"""Proxies that have a ProxyClass: they are as it says, and only what changes restarts them."""

from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import pytest
from clustersim import objects
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.names import ANNOTATION_GIVEN
from tsoperator.api.objects import SERVICEMONITOR, Object, annotations, key_of, labels, uid
from tsoperator.kube.errors import NotFound

from tests.operator.classes import (
    BAD,
    FOO,
    METRICS,
    class_reason,
    container,
    foo,
    joined_with_class,
    metrics_services,
    variable,
)
from tests.operator.proxies import event, restarted
from tests.support.lanes import cases
from tests.support.manifests import DOMAIN, backend, connector, egress, ingress, load_balancer, proxy_class
from tests.support.operator import NAMESPACE, Proxy, World, new_world, running_operator

SERVICE_WITH_CLASS = egress(proxy_class="prod")
INGRESS_WITH_CLASS = ingress(proxy_class="prod")
ROUTER = connector(exitNode=True, proxyClass="prod")
MONITORED: Object = {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"release": "prom"}}}}
FAMILIES = {"IPv6 alone": ("IPv6",), "IPv6 first": ("IPv6", "IPv4")}


@pytest.mark.parametrize("families", cases(FAMILIES, "IPv6 alone"))
async def test_metrics_are_served_at_an_ipv6_address(families: tuple[str, ...]) -> None:
    async with new_world(SimOptions(families=families)) as world, running_operator(world):
        before = await joined_with_class(world, ROUTER, **METRICS)
        assert before.env["TS_LOCAL_ADDR_PORT"] == "[$(POD_IP)]:9002"
        assert not await world.writes_when_left_alone()
        await world.change(ROUTER, {"spec": {"hostname": "gate"}})
        await world.becomes(world.device_names, [f"gate.{DOMAIN}"])
        assert (await world.joined(ROUTER)).pod_uid == before.pod_uid


AMOUNTS = {"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "2000m", "memory": "2048Mi"}}
TWICE = [{"name": "TS_USERSPACE", "value": "false"}, {"name": "A", "value": ""}, {"name": "A"}]
PLACED: Object = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists", "tolerationSeconds": 30, "effect": "NoExecute"}],
    "affinity": {"podAntiAffinity": {}, "nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "securityContext": {"fsGroup": 0, "sysctls": []},
    "imagePullSecrets": [{"name": "pull"}],
    "tailscaleContainer": {"resources": AMOUNTS, "env": TWICE},
}


async def test_fields_that_the_api_server_writes_its_own_way_are_left_alone(world: World) -> None:
    await joined_with_class(world, SERVICE_WITH_CLASS, statefulSet={"pod": PLACED})
    assert not await world.writes_when_left_alone()
    await world.annotate(egress(), {"example.org/look": "again"})
    assert not {plural for _, _, plural in await world.writes_when_left_alone()} & {"statefulsets"}


async def test_the_default_class_is_that_of_proxies_which_name_none(cluster: World) -> None:
    none = egress("none", f"second.{DOMAIN}", proxy_class="")
    await cluster.apply(proxy_class(**FOO), egress(), none, backend(), ingress())
    async with running_operator(cluster, proxy_class="prod"):
        assert (await cluster.joined(egress())).env["FOO"] == "1"
        assert (await cluster.joined(ingress())).env["FOO"] == "1"
        assert "FOO" not in (await cluster.joined(none)).env
        await cluster.change(proxy_class(), {"spec": variable("2")})
        for parent in (egress(), ingress()):
            await cluster.becomes(partial(foo, cluster, parent), "2")


class Edit(NamedTuple):
    spec: Object
    restarts: bool


UNSEEN_BY_PODS = {
    **METRICS,
    "statefulSet": {"labels": {"team": "db"}, "annotations": {"example.org/note": "x"}},
    "tailscale": {"acceptRoutes": True},
    "useLetsEncryptStagingEnvironment": True,
}
EDITS = {
    "variable": Edit(variable("2"), restarts=True),
    "label of Pods": Edit({"statefulSet": {"pod": {"labels": {"tier": "db"}}}}, restarts=True),
    "nothing that an egress proxy's Pod has": Edit(UNSEEN_BY_PODS, restarts=False),
}


@pytest.mark.parametrize("edit", cases(EDITS, "variable", "nothing that an egress proxy's Pod has"))
async def test_a_change_of_a_class_restarts_only_what_it_changes(world: World, edit: Edit) -> None:
    before = await joined_with_class(world, SERVICE_WITH_CLASS, **FOO)
    await world.change(proxy_class(), {"spec": edit.spec})
    if edit.restarts:
        await world.eventually(lambda: restarted(world, before, egress()))
    after = await world.joined(egress())
    assert (after.pod_uid != before.pod_uid, after.name) == (edit.restarts, before.name)
    assert (await metrics_services(world), "TS_ENABLE_METRICS" in after.env) == ([], False)
    assert await world.reason(egress()) == "ProxyCreated"
    assert not await world.writes_when_left_alone()


PARENTS = (SERVICE_WITH_CLASS, ROUTER, INGRESS_WITH_CLASS)


async def test_a_change_of_a_class_is_no_news_to_its_parents(world: World) -> None:
    await world.apply(backend(), proxy_class(**FOO), *PARENTS)
    for parent in PARENTS:
        await world.joined(parent)
    await world.becomes(lambda: world.reason(ROUTER, "ConnectorReady"), "ConnectorCreated")
    await world.settled()
    before = [(await world.look(parent))["status"] for parent in PARENTS], await world.events(ingress())
    with world.store.subscribe(objects.SERVICE, objects.CONNECTOR) as changes:
        await world.change(proxy_class(), {"spec": variable("2")})
        for parent in PARENTS:
            await world.becomes(partial(foo, world, parent), "2")
        await world.settled()
        changes.close()
        shown = [change.object["status"] async for change in changes if "conditions" in change.object["status"]]
    assert ([status for status in shown if status not in before[0]], await world.events(ingress())) == ([], before[1])


EVERYTHING: Object = {
    "statefulSet": FOO["statefulSet"] | {"labels": {"team": "db"}, "annotations": {"example.org/note": "x"}},
    "tailscale": {"acceptRoutes": True},
}
WITHOUT = {
    "class named no more": (egress(), {"metadata": {"annotations": {"tailscale.com/proxy-class": None}}}),
    "class that says nothing": (proxy_class(), {"spec": {"statefulSet": None, "tailscale": None}}),
}


@pytest.mark.parametrize("change", cases(WITHOUT, "class named no more"))
async def test_without_its_class_a_proxy_is_as_one_that_never_had_one(
    world: World, change: tuple[Object, Object]
) -> None:
    before = await joined_with_class(world, SERVICE_WITH_CLASS, **EVERYTHING)
    assert (labels(before.statefulset)["team"], before.config["acceptRoutes"]) == ("db", True)
    assert annotations(before.statefulset)["example.org/note"] == "x"
    await world.change(before.statefulset, {"metadata": {"labels": {"theirs": "1"}}})
    await world.change(*change)
    await world.becomes(lambda: foo(world, egress()), None)
    after = await world.joined(egress())
    plain = egress("plain", f"second.{DOMAIN}")
    await world.apply(plain)
    assert field_names(after) == field_names(await world.joined(plain))
    assert (labels(after.statefulset).get("theirs"), after.config["acceptRoutes"]) == ("1", False)
    assert not {"team"} & labels(after.statefulset).keys()
    assert not {"example.org/note", ANNOTATION_GIVEN} & annotations(after.statefulset).keys()


def field_names(proxy: Proxy) -> list[object]:
    """Return the names of what the proxy's Pods and their container have."""
    pod = proxy.statefulset["spec"]["template"]
    [only] = pod["spec"]["containers"]
    return [pod["metadata"].keys(), pod["spec"].keys(), only.keys(), [each["name"] for each in only["env"]]]


async def test_a_class_that_becomes_invalid_or_goes_leaves_what_runs(world: World) -> None:
    before = await joined_with_class(world, SERVICE_WITH_CLASS, **FOO)
    await world.change(proxy_class(), {"spec": BAD})
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    assert not await world.writes_when_left_alone()
    await world.change(proxy_class(), {"spec": FOO | container(image=None)})
    await world.becomes(lambda: world.reason(egress()), "ProxyCreated")
    await world.delete(proxy_class())
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    assert not await world.writes_when_left_alone()
    after = await world.joined(egress())
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    await world.delete(egress())
    await world.eventually(lambda: world.gone(egress()))
    assert await world.leftovers(egress()) == []


async def test_a_proxy_waits_for_its_class(world: World) -> None:
    await world.apply(SERVICE_WITH_CLASS, backend(), INGRESS_WITH_CLASS)
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    await world.apply(proxy_class(**BAD))
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    assert [await world.leftovers(parent) for parent in (egress(), ingress())] == [[], []]
    await world.change(proxy_class(), {"spec": FOO | container(image="example.org/tailscale:v1")})
    assert (await world.joined(egress())).env.get("FOO") is None
    await world.joined(ingress())


async def measured(world: World, parent: Object = INGRESS_WITH_CLASS, **spec: Any) -> Proxy:
    """Return the proxy of *parent*, which serves metrics."""
    await world.apply(backend())
    proxy = await joined_with_class(world, parent, **(spec or METRICS))
    await world.becomes(lambda: metrics_services(world), [f"{proxy.name}-metrics"])
    await world.settled()
    return proxy


async def test_metrics_are_served_and_can_be_found_until_they_are_not_wanted(world: World) -> None:
    proxy = await measured(world)
    service = await world.look(metrics_service(proxy))
    assert (proxy.env["TS_ENABLE_METRICS"], proxy.env["TS_LOCAL_ADDR_PORT"]) == ("true", "$(POD_IP):9002")
    assert service["spec"]["selector"].items() <= labels(proxy.pod).items()
    assert labels(service)["ts_prom_job"] == "ts_ingress_resource_default_web"
    assert not await world.writes_when_left_alone()
    await world.change(proxy_class(), {"spec": {"metrics": {"enable": False}}})
    await world.becomes(lambda: metrics_services(world), [])
    assert "TS_ENABLE_METRICS" not in (await world.joined(ingress())).env
    assert not await world.writes_when_left_alone()


def metrics_service(proxy: Proxy) -> Object:
    """Return what names the metrics Service of *proxy*."""
    metadata = {"namespace": NAMESPACE, "name": f"{proxy.name}-metrics"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


async def test_a_metrics_service_that_is_edited_or_deleted_is_put_right(world: World) -> None:
    service = await world.look(metrics_service(await measured(world)))

    async def spec() -> object:
        return (await world.look(service))["spec"]

    async def is_another() -> bool:
        return not await world.gone(service) and uid(await world.look(service)) != uid(service)

    await world.change(service, {"spec": {"selector": {"app": "other"}}})
    await world.becomes(spec, {**service["spec"], "selector": {**service["spec"]["selector"], "app": "other"}})
    await world.change(service, {"spec": {"selector": {"app": None}, "ports": [{"name": "metrics", "port": 1}]}})
    await world.becomes(spec, service["spec"])
    await world.delete(service)
    await world.eventually(is_another)
    assert not await world.writes_when_left_alone()


async def monitor_labels(world: World) -> Object | None:
    """Return the labels of the one ServiceMonitor; None without one."""
    try:
        found = (await world.api.list(SERVICEMONITOR, NAMESPACE)).items
    except NotFound:  # the kind is yet to come
        return None
    return dict(labels(found[0])) if found else None


async def define_monitors(world: World, monitoring: Object) -> None:
    """Let the API server serve ServiceMonitors."""
    await world.apply(monitoring)

    async def is_served() -> bool:
        try:
            await world.api.list(SERVICEMONITOR, NAMESPACE)
        except NotFound:
            return False
        return True

    await world.eventually(is_served)


FAILING = [
    pytest.param(verb, marks=[pytest.mark.simulated, pytest.mark.thorough]) for verb in ("create", "update", "delete")
]


@pytest.mark.parametrize("failing", [None, *FAILING])
async def test_a_service_monitor_follows_the_class(cluster: World, monitoring: Object, failing: str | None) -> None:
    await define_monitors(cluster, monitoring)
    if failing:
        for status in (500, 409, 500):
            cluster.sim.faults.fail(Failure(status, verb=failing, plural="servicemonitors"))
    async with running_operator(cluster):
        proxy = await measured(cluster, **MONITORED)
        own = dict(labels(await cluster.look(metrics_service(proxy))))
        await cluster.becomes(lambda: monitor_labels(cluster), {**own, "release": "prom"})
        assert not await cluster.writes_when_left_alone()
        await cluster.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": {"labels": None}}}})
        await cluster.becomes(lambda: monitor_labels(cluster), own)
        await cluster.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": None}}})
        await cluster.becomes(lambda: monitor_labels(cluster), None)
        assert await metrics_services(cluster) == [f"{proxy.name}-metrics"]
        assert not await cluster.writes_when_left_alone()
        assert not cluster.simulation or cluster.sim.faults.to_json()["fail"] == []


@pytest.mark.parametrize(
    "parent", [INGRESS_WITH_CLASS, ROUTER, load_balancer(proxy_class="prod")], ids=itemgetter("kind")
)
async def test_a_service_monitor_without_its_labels_is_given_them_back_and_never_patched(
    world: World, monitoring: Object, parent: Object
) -> None:
    await define_monitors(world, monitoring)
    await measured(world, parent, **MONITORED)
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
    return sum(count for (_, *what), count in world.requests().items() if what == ["patch", "servicemonitors"])


async def test_a_strangers_service_monitor_is_said_to_be_in_the_way(cluster: World, monitoring: Object) -> None:
    await define_monitors(cluster, monitoring)
    async with running_operator(cluster):
        proxy = await measured(cluster)
    stranger = {**metrics_service(proxy), "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}
    await cluster.apply({**stranger, "spec": {"selector": {}, "endpoints": []}})
    theirs = await cluster.look(stranger)
    await cluster.change(proxy_class(), {"spec": MONITORED})
    async with running_operator(cluster):
        said = await cluster.eventually(lambda: event(cluster, ingress(), "ProxyFailed"))
    assert f"ServiceMonitor {key_of(stranger)} is in the way" in said
    assert await cluster.look(stranger) == theirs


async def test_a_service_monitor_is_made_once_the_prometheus_operator_is_there(
    world: World, monitoring: Object
) -> None:
    await world.apply(backend(), proxy_class(**MONITORED), INGRESS_WITH_CLASS)
    await world.becomes(lambda: class_reason(world), "ProxyClassInvalid")
    assert await world.leftovers(ingress()) == []
    await world.apply(monitoring)
    await world.joined(ingress())
    await world.eventually(lambda: monitor_labels(world))
