"""Proxies that have a ProxyClass: they get its changes, and only a change of their own Pods restarts them."""

from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from clustersim import objects
from clustersim.faults import Failure
from clustersim.sim import SimOptions
from tsoperator.api.names import ANNOTATION_GIVEN
from tsoperator.api.objects import SERVICE, SERVICEMONITOR, STATEFULSET, Object, annotations, key_of, labels, uid

from tests.operator.proxies import event, restarted
from tests.support.lanes import cases
from tests.support.manifests import DOMAIN, backend, connector, egress, ingress, load_balancer, proxy_class
from tests.support.operator import NAMESPACE, Proxy, World, new_world, running_operator


def container(**fields: Any) -> Object:
    """Return the spec of a class that changes the container in which tailscaled runs."""
    return {"statefulSet": {"pod": {"tailscaleContainer": fields}}}


def variable(value: str) -> Object:
    """Return the spec of a class that sets the variable FOO to *value* in the container of tailscaled."""
    return container(env=[{"name": "FOO", "value": value}])


FOO = variable("1")
BAD = container(image="FOO bar")
METRICS: Object = {"metrics": {"enable": True}}
SERVICE_WITH_CLASS = egress(proxy_class="prod")
INGRESS_WITH_CLASS = ingress(proxy_class="prod")
ROUTER = connector(exitNode=True, proxyClass="prod")
PARENTS = (SERVICE_WITH_CLASS, ROUTER, INGRESS_WITH_CLASS)


async def joined_with_class(world: World, parent: Object, **spec: Any) -> Proxy:
    """Create the ProxyClass ``prod`` with *spec*. Return the proxy of *parent*, which names this class."""
    await world.apply(backend(), proxy_class(**spec), parent)
    return await world.joined(parent)


async def foo(world: World, parent: Object) -> str | None:
    statefulsets = await world.children(STATEFULSET, parent)
    return Proxy({}, statefulsets[0], {}, {}).env.get("FOO") if statefulsets else None


async def metrics_services(world: World) -> list[str]:
    selector = "tailscale.com/metrics-target,tailscale.com/managed=true"
    return [key_of(obj).name for obj in (await world.api.list(SERVICE, NAMESPACE, selector)).items]


@pytest.mark.parametrize("families", cases({"IPv6 alone": ("IPv6",), "IPv6 first": ("IPv6", "IPv4")}, "IPv6 alone"))
async def test_a_proxy_serves_its_metrics_at_an_ipv6_address(families: tuple[str, ...]) -> None:
    async with new_world(SimOptions(families=families)) as world, running_operator(world):
        before = await joined_with_class(world, ROUTER, **METRICS)
        assert before.env["TS_LOCAL_ADDR_PORT"] == "[$(POD_IP)]:9002"
        assert not await world.writes_when_left_alone()
        await world.change(ROUTER, {"spec": {"hostname": "gate"}})
        await world.becomes(world.device_names, [f"gate.{DOMAIN}"])
        assert (await world.joined(ROUTER)).pod_uid == before.pod_uid


AMOUNTS = {"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "2000m", "memory": "2048Mi"}}
TWICE = [{"name": "TS_USERSPACE", "value": "false"}, {"name": "A", "value": ""}, {"name": "A"}]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
PLACED: Object = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists", "tolerationSeconds": 30, "effect": "NoExecute"}],
    "affinity": {"podAntiAffinity": {}, "nodeAffinity": {}},
    "topologySpreadConstraints": [SPREAD],
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "securityContext": {"fsGroup": 0, "sysctls": []},
    "imagePullSecrets": [{"name": "pull"}],
    "tailscaleContainer": {"resources": AMOUNTS, "env": TWICE},
}


async def test_the_operator_does_not_rewrite_a_field_that_the_api_server_has_written_in_another_form(
    world: World,
) -> None:
    await joined_with_class(world, SERVICE_WITH_CLASS, statefulSet={"pod": PLACED})
    assert not await world.writes_when_left_alone()
    await world.annotate(egress(), {"example.org/look": "again"})
    assert not {plural for _, _, plural in await world.writes_when_left_alone()} & {"statefulsets"}


UNSEEN_BY_PODS = {
    **METRICS,
    "statefulSet": {"labels": {"team": "db"}, "annotations": {"example.org/note": "x"}},
    "tailscale": {"acceptRoutes": True},
    "useLetsEncryptStagingEnvironment": True,
}
EDITS = {
    "variable": (variable("2"), True),
    "label of Pods": ({"statefulSet": {"pod": {"labels": {"tier": "db"}}}}, True),
    "nothing that an egress proxy's Pod has": (UNSEEN_BY_PODS, False),
}


@pytest.mark.parametrize("edit", cases(EDITS, "variable", "nothing that an egress proxy's Pod has"))
async def test_a_change_of_a_class_restarts_a_proxy_only_if_the_pod_of_the_proxy_changes(
    world: World, edit: tuple[Object, bool]
) -> None:
    spec, restarts = edit
    before = await joined_with_class(world, SERVICE_WITH_CLASS, **FOO)
    await world.change(proxy_class(), {"spec": spec})
    if restarts:
        await world.eventually(lambda: restarted(world, before, egress()))
    after = await world.joined(egress())
    assert (after.pod_uid != before.pod_uid, after.name) == (restarts, before.name)
    assert (await metrics_services(world), "TS_ENABLE_METRICS" in after.env) == ([], False)
    assert await world.reason(egress()) == "ProxyCreated"
    assert not await world.writes_when_left_alone()


async def test_a_change_of_a_class_changes_neither_the_status_nor_the_events_of_objects_with_this_class(
    world: World,
) -> None:
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
async def test_a_proxy_that_loses_its_class_becomes_like_a_proxy_that_never_had_a_class(
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
    """Return the names of the fields of the proxy's Pods and their container, and of its environment variables."""
    pod = proxy.statefulset["spec"]["template"]
    [only] = pod["spec"]["containers"]
    return [pod["metadata"].keys(), pod["spec"].keys(), only.keys(), [each["name"] for each in only["env"]]]


async def test_a_proxy_waits_for_its_class_but_keeps_running_when_the_class_becomes_invalid_or_is_deleted(
    world: World,
) -> None:
    await world.apply(SERVICE_WITH_CLASS, backend(), INGRESS_WITH_CLASS)
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    await world.apply(proxy_class(**BAD))
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    assert [await world.leftovers(parent) for parent in (egress(), ingress())] == [[], []]
    await world.change(proxy_class(), {"spec": container(image="example.org/tailscale:v1")})
    before = [await world.joined(parent) for parent in (egress(), ingress())]
    await world.change(proxy_class(), {"spec": BAD})
    await world.becomes(lambda: world.reason(egress()), "ProxyPending")
    assert not await world.writes_when_left_alone()
    await world.delete(proxy_class())
    await world.becomes(lambda: world.reason(egress()), "ProxyFailed")
    after = [await world.joined(parent) for parent in (egress(), ingress())]
    assert [(each.pod_uid, each.statefulset["spec"]) for each in after] == [
        (each.pod_uid, each.statefulset["spec"]) for each in before
    ]


async def measured(world: World, parent: Object = INGRESS_WITH_CLASS, **spec: Any) -> Proxy:
    proxy = await joined_with_class(world, parent, **(spec or METRICS))
    await world.becomes(lambda: metrics_services(world), [f"{proxy.name}-metrics"])
    await world.settled()
    return proxy


def metrics_service(proxy: Proxy) -> Object:
    metadata = {"namespace": NAMESPACE, "name": f"{proxy.name}-metrics"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


async def test_the_metrics_of_a_proxy_can_be_found_and_read_until_its_class_turns_metrics_off(world: World) -> None:
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


async def test_the_operator_restores_a_metrics_service_that_is_edited_or_deleted(world: World) -> None:
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


MONITORED: Object = {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"release": "prom"}}}}


@pytest.fixture
async def monitored(cluster: World, monitoring: Object) -> World:
    await cluster.apply(monitoring)
    await cluster.becomes(lambda: cluster.api.serves(SERVICEMONITOR), True)
    return cluster


async def monitors(world: World) -> list[Object]:
    return (await world.api.list(SERVICEMONITOR, NAMESPACE)).items


async def monitor_labels(world: World) -> list[dict[str, str]]:
    return [dict(labels(found)) for found in await monitors(world)]


FAILING = [
    pytest.param(verb, marks=[pytest.mark.simulated, pytest.mark.thorough]) for verb in ("create", "update", "delete")
]


@pytest.mark.parametrize("failing", [None, *FAILING])
async def test_a_service_monitor_has_the_labels_of_the_class_and_is_deleted_when_the_class_no_longer_asks_for_it(
    monitored: World, failing: str | None
) -> None:
    for status in (500, 409, 500) if failing else ():
        monitored.sim.faults.fail(Failure(status, verb=failing or "", plural="servicemonitors"))
    async with running_operator(monitored):
        proxy = await measured(monitored, **MONITORED)
        own = dict(labels(await monitored.look(metrics_service(proxy))))
        await monitored.becomes(lambda: monitor_labels(monitored), [{**own, "release": "prom"}])
        assert not await monitored.writes_when_left_alone()
        await monitored.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": {"labels": None}}}})
        await monitored.becomes(lambda: monitor_labels(monitored), [own])
        await monitored.change(proxy_class(), {"spec": {"metrics": {"serviceMonitor": None}}})
        await monitored.becomes(lambda: monitor_labels(monitored), [])
        assert await metrics_services(monitored) == [f"{proxy.name}-metrics"]
        assert not await monitored.writes_when_left_alone()
        assert not monitored.simulation or monitored.sim.faults.to_json()["fail"] == []


@pytest.mark.parametrize(
    "parent", [INGRESS_WITH_CLASS, ROUTER, load_balancer(proxy_class="prod")], ids=itemgetter("kind")
)
async def test_the_operator_restores_the_lost_labels_of_a_service_monitor_without_a_patch_request(
    monitored: World, parent: Object
) -> None:
    async with running_operator(monitored):
        await measured(monitored, parent, **MONITORED)
        await monitored.eventually(lambda: monitors(monitored))
        [wanted], [monitor] = await monitor_labels(monitored), await monitors(monitored)
        await monitored.settled()
        before = patches(monitored)
        await monitored.change(monitor, {"metadata": {"labels": None}})
        await monitored.becomes(lambda: monitor_labels(monitored), [wanted])
        await monitored.settled()
        # The only patch is that of the test itself. Only a simulated cluster counts patches.
        assert patches(monitored) - before == (monitored.simulation is not None)


def patches(world: World) -> int:
    return sum(count for (_, *what), count in world.requests().items() if what == ["patch", "servicemonitors"])


async def test_an_ingress_reports_a_foreign_service_monitor_that_has_the_name_of_its_own_service_monitor(
    monitored: World,
) -> None:
    async with running_operator(monitored):
        proxy = await measured(monitored)
    stranger = {**metrics_service(proxy), "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}
    await monitored.apply({**stranger, "spec": {"selector": {}, "endpoints": []}})
    theirs = await monitored.look(stranger)
    await monitored.change(proxy_class(), {"spec": MONITORED})
    async with running_operator(monitored):
        said = await monitored.eventually(lambda: event(monitored, ingress(), "ProxyFailed"))
    assert f"ServiceMonitor {key_of(stranger)} is in the way" in said
    assert await monitored.look(stranger) == theirs


async def test_a_service_monitor_is_made_once_the_prometheus_operator_is_there(
    world: World, monitoring: Object
) -> None:
    await world.apply(backend(), proxy_class(**MONITORED), INGRESS_WITH_CLASS)
    await world.becomes(lambda: world.reason(proxy_class(), "ProxyClassReady"), "ProxyClassInvalid")
    assert await world.leftovers(ingress()) == []
    await world.apply(monitoring)
    await world.joined(ingress())
    await world.eventually(lambda: monitor_labels(world))
