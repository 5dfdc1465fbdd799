"""Tests of the simulated proxies of a ProxyGroup of type egress."""

import asyncio
import json
from typing import Any

import pytest
from clustersim import kubelet
from clustersim.controller import Key
from clustersim.egress import Egress, Health
from clustersim.mounts import Volumes
from clustersim.objects import CONFIGMAP, ENDPOINTSLICE, POD, SECRET, Object
from clustersim.proxyconfig import ConfigError
from clustersim.sim import ClusterSim
from clustersim.store import Store
from clustersim.tailnet import Tailnet
from clustersim.tailnetservices import TailscaleService

from tests.loadtest.clustersim.running import CONFIG, config_secret, new_key, proxy_pod, state, touch, until
from tests.support.cluster import running

NAME = Key("tailscale", "foo-egress-config")
ADDRESSES = {"podIPv4": "10.244.0.2", "podIPv6": ""}
HEALTH = "http://ts-db.tailscale.svc.cluster.local:9002/healthz"


def replica() -> Object:
    """Return the Pod of a proxy. It mounts its own config Secret, that of another proxy, and the group's ConfigMap."""
    pod = proxy_pod("foo-0", TS_EGRESS_PROXIES_CONFIG_PATH="/etc/proxies")
    pod["spec"]["containers"][0]["volumeMounts"] += [{"name": "proxies", "mountPath": "/etc/proxies"}]
    pod["spec"]["volumes"] += [
        {"name": "other", "secret": {"secretName": "foo-1"}},
        {"name": "proxies", "configMap": {"name": NAME.name}},
    ]
    return pod


def ground(**entries: Object) -> tuple[Store, Tailnet]:
    """Return a store with all objects that the Pod of `replica` mounts, and the tailnet that the Pod joins.

    The group's ConfigMap has these *entries*.
    """
    store, tailnet = configured(egress_services=json.dumps(entries), hep_pings="6"), Tailnet()
    config = json.dumps({**CONFIG, "AuthKey": new_key(tailnet)})
    for name in ("foo-0", "foo-1"):
        metadata = {"namespace": "tailscale", "name": name}
        store.create(SECRET, {"metadata": metadata, "stringData": {"cap-106.hujson": config}})
    return store, tailnet


@pytest.mark.parametrize(
    ("resource", "name", "word"),
    [(CONFIGMAP, NAME.name, "configmap"), (SECRET, "foo-1", "secret"), (SECRET, "foo-0", "secret")],
)
async def test_a_replica_of_an_egress_group_starts_only_when_all_objects_that_it_mounts_exist(
    resource: Any, name: str, word: str
) -> None:
    def status() -> Any:
        return store.get(POD, "tailscale", "foo-0").get("status", {})

    store, tailnet = ground()
    late = store.delete(resource, "tailscale", name)
    async with running(kubelet.run(store, tailnet)):
        store.create(POD, replica())
        await until(store, lambda: "containerStatuses" in status())
        waiting = {"reason": "ContainerCreating", "message": f'{word} "{name}" not found'}
        assert status()["containerStatuses"][0]["state"]["waiting"] == waiting
        assert (status()["phase"], "podIP" in status(), tailnet.devices) == ("Pending", False, {})
        store.create(resource, {**late, "metadata": {"namespace": "tailscale", "name": name}})
        await until(store, lambda: tailnet.devices and status().get("podIP") == "10.244.0.2")


async def test_a_replica_of_an_egress_group_reports_the_new_address_of_its_target() -> None:
    def report() -> Any:
        return json.loads(state(store, "foo-0")["egress-services"])["services"]

    store, tailnet = ground(a={"ports": [], "tailnetTarget": {"ip": "", "fqdn": "db.tail1234.ts.net"}})
    async with running(kubelet.run(store, tailnet)):
        store.create(POD, replica())
        await until(store, lambda: "egress-services" in state(store, "foo-0"))
        assert report()["a"]["tailnetTargetIPs"] is None
        db = tailnet.register(new_key(tailnet), "db")
        await until(store, lambda: report()["a"]["tailnetTargetIPs"] == list(db.addresses))
        tailnet.delete_device(db)
        await until(store, lambda: report()["a"]["tailnetTargetIPs"] is None)
        service = tailnet.services.put(TailscaleService("svc:db"))
        await until(store, lambda: report()["a"]["tailnetTargetIPs"] == list(service.addresses))
        store.merge(CONFIGMAP, *NAME, {"data": {"egress-services": None}})
        touch(store, "foo-0")
        await until(store, lambda: report() is None)


def egress(store: Store, addresses: dict[str, str]) -> Egress:
    """Return the part of a simulated proxy that is about egress. The proxy mounts the ConfigMap in *store*.

    *addresses* are those of the Pod, by ``podIPv4`` and ``podIPv6``.
    """
    volumes = Volumes(store, NAME.namespace, [(CONFIGMAP, NAME.name)])
    volumes.sync()
    return Egress(store, volumes, NAME.name, addresses)


def configured(**files: str) -> Store:
    """Return a store with *files* as keys of the group's ConfigMap. A ``_`` in an argument's name stands for ``-``."""
    store = Store()
    data = {name.replace("_", "-"): text for name, text in files.items()}
    store.create(CONFIGMAP, {"metadata": {"namespace": "tailscale", "name": NAME.name}, "data": data})
    return store


def endpointslice(conditions: Object) -> Object:
    metadata = {"name": "a", "namespace": "tailscale", "labels": {"kubernetes.io/service-name": "ts-db"}}
    endpoints = [{"addresses": ["10.244.0.2"], "conditions": conditions}]
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}


async def test_a_pod_with_a_prestop_hook_stays_until_no_service_routes_to_it() -> None:
    hooked = replica()
    hooked["spec"]["terminationGracePeriodSeconds"] = 360_000
    hooked["spec"]["containers"][0]["lifecycle"] = {"preStop": {"httpGet": {"path": "/", "port": 9002}}}
    target = {"ip": "100.64.9.9", "fqdn": ""}
    store, tailnet = ground(a={"ports": [], "tailnetTarget": target, "healthCheckEndpoint": HEALTH})
    store.create(ENDPOINTSLICE, endpointslice({"ready": True}))
    async with running(kubelet.run(store, tailnet)):
        store.create(POD, hooked)
        await until(store, lambda: "egress-services" in state(store, "foo-0"))
        store.delete(POD, "tailscale", "foo-0")
        await asyncio.sleep(20 * kubelet.SECOND)
        assert store.find(POD, "tailscale", "foo-0")
        store.delete(ENDPOINTSLICE, "tailscale", "a")
        await until(store, lambda: not store.find(POD, "tailscale", "foo-0"))


@pytest.mark.virtual_time
async def test_a_proxy_that_ignores_sigterm_ends_with_the_grace_period_of_its_first_deletion(sim: ClusterSim) -> None:
    sim.kubelet.second, sim.kubelet.ignores_sigterm = 1.0, True
    sim.store.create(SECRET, config_secret())
    pod = proxy_pod()
    pod["spec"]["containers"][0]["lifecycle"] = {"preStop": {"httpGet": {"path": "/", "port": 9002}}}
    sim.store.create(POD, pod)
    await until(sim.store, lambda: "podIP" in sim.store.get(POD, "tailscale", "ts-db-0")["status"])
    for grace, seconds in ((20, 10), (5, 9)):
        sim.store.delete(POD, "tailscale", "ts-db-0", grace=grace)
        await asyncio.sleep(seconds)
        assert sim.store.find(POD, "tailscale", "ts-db-0")
    await asyncio.sleep(2)
    assert not sim.store.find(POD, "tailscale", "ts-db-0")


@pytest.mark.parametrize("text", ["{", "[]", '{"a-b": {"ports": []}}'])
def test_a_proxy_refuses_an_unreadable_list_of_egress_services(text: str) -> None:
    with pytest.raises(ConfigError):
        egress(configured(egress_services=text), ADDRESSES).report(Tailnet())


@pytest.mark.parametrize(
    ("entries", "pings", "conditions", "routed"),
    [
        ({"default-db": {"healthCheckEndpoint": HEALTH}}, "6", {"ready": True}, True),
        ({"default-db": {"healthCheckEndpoint": HEALTH}}, "6", {"ready": None}, True),
        ({"default-db": {"healthCheckEndpoint": HEALTH}}, "6", {"ready": False}, False),
        ({"default-db": {"healthCheckEndpoint": HEALTH}}, "0", {"ready": True}, False),
        ({"default-db": {"healthCheckEndpoint": HEALTH.replace("ts-db", "ts-x")}}, "6", {"ready": True}, False),
        ({"default-db": {"healthCheckEndpoint": ""}}, "6", {"ready": True}, False),
        ({}, "6", {"ready": True}, False),
    ],
)
def test_a_proxy_that_ends_waits_until_the_health_check_services_no_longer_route_to_it(
    entries: Object, pings: str, conditions: Object, routed: bool
) -> None:
    store = configured(hep_pings=pings, egress_services=json.dumps(entries))
    store.create(ENDPOINTSLICE, endpointslice(conditions))
    assert egress(store, ADDRESSES).is_routed() is routed
    assert not egress(store, {"podIPv4": "10.244.0.3"}).is_routed()


@pytest.mark.parametrize(
    ("image", "env", "has_joined", "answer"),
    [
        ("example.org/tailscale", {}, True, (200, {"Pod-IPv4": "10.244.0.2"})),
        ("example.org/tailscale:v1.80.0", {}, True, (200, {"Pod-IPv4": "10.244.0.2"})),
        ("example.org/tailscale:v1.78.1", {}, True, (200, {})),
        ("example.org/tailscale", {}, False, (503, {})),
        ("example.org/tailscale", {"TS_LOCAL_ADDR_PORT": "[::]:9003"}, True, None),
        ("example.org/tailscale", {"TS_ENABLE_HEALTH_CHECK": ""}, True, None),
    ],
)
def test_the_answer_of_a_proxys_health_port_depends_on_its_image_its_settings_and_its_login(
    image: str, env: dict[str, str], has_joined: bool, answer: object
) -> None:
    given = {"TS_ENABLE_HEALTH_CHECK": "true", **env}
    health = Health({"image": image}, given, {"Pod-IPv4": "10.244.0.2", "Pod-IPv6": ""})
    assert health.answer(9002, has_joined) == answer
