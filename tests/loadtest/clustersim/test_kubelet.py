import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from clustersim import kubelet
from clustersim.kubelet import Kubelet
from clustersim.objects import NODE, POD, SECRET, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet, Tailnets

from tests.loadtest.clustersim.running import config_secret, configure, new_key, proxy_pod, state, touch, until
from tests.support.cluster import running

TARGET = {"TS_TAILNET_TARGET_FQDN": "db.tail1234.ts.net."}


class World(NamedTuple):
    store: Store
    tailnet: Tailnet


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store, tailnet = Store(), Tailnet()
    async with running(kubelet.run(store, tailnet)):
        yield World(store, tailnet)


@pytest.fixture
async def joined(world: World) -> World:
    """Return a world with a proxy that has joined the tailnet and has used up its auth key."""
    start(world, **TARGET)
    await until(world.store, lambda: "device_fqdn" in state(world.store))
    configure(world.store, Hostname="ts-db-0")
    return world


def start(world: World, more: dict[str, str] | None = None, /, **variables: str) -> None:
    """Start a proxy with the environment *variables*. Its Secret has a valid auth key, and the data in *more*."""
    secret = config_secret(AuthKey=new_key(world.tailnet), Hostname="ts-db-0")
    secret["stringData"] |= more or {}
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod(**variables))


async def restart(world: World) -> None:
    """Replace the Pod, and wait until the new one is ready."""
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: is_ready(world))


def pod_status(world: World, name: str = "ts-db-0") -> Any:
    return world.store.get(POD, "tailscale", name).get("status", {})


def is_ready(world: World, name: str = "ts-db-0") -> bool:
    return {"Ready": "True"} in [{c["type"]: c["status"]} for c in pod_status(world, name).get("conditions", ())]


@pytest.mark.parametrize("families", [("IPv4", "IPv6"), ("IPv6",)])
async def test_every_pod_gets_a_node_and_its_own_addresses(families: tuple[str, ...]) -> None:
    world = World(Store(), Tailnet())
    async with running(kubelet.run(*world, families)):
        for name in ("a", "b"):
            pod = {"metadata": {"name": name, "namespace": "tailscale"}, "spec": {"containers": [{"name": "c"}]}}
            world.store.create(POD, pod)
        await until(world.store, lambda: is_ready(world, "a") and is_ready(world, "b"))
    pods = [world.store.get(POD, "tailscale", name) for name in ("a", "b")]
    assert all(world.store.find(NODE, "", pod["spec"]["nodeName"]) for pod in pods)
    addresses = [{"IPv4": f"10.244.0.{n}", "IPv6": f"2001:db8:244::{n}"} for n in (2, 3)]
    assert [[entry["ip"] for entry in pod["status"]["podIPs"]] for pod in pods] == [
        [pair[family] for family in families] for pair in addresses
    ]


GATED = {"readinessGates": [{"conditionType": "example.org/a"}]}


@pytest.mark.parametrize(("spec", "reason"), [({}, None), (GATED, "ReadinessGatesNotReady")])
async def test_the_status_of_a_pod_says_that_it_waits_for_its_readiness_gates(
    world: World, spec: Object, reason: str | None
) -> None:
    containers = {"containers": [{"name": "c"}]}
    world.store.create(POD, {"metadata": {"name": "a", "namespace": "tailscale"}, "spec": containers | spec})
    await until(world.store, lambda: pod_status(world, "a").get("conditions"))
    found = {each["type"]: each.get("reason") for each in pod_status(world, "a")["conditions"]}
    assert (found["ContainersReady"], found["Ready"]) == (None, reason)


async def test_a_pod_whose_image_is_in_no_registry_waits_for_the_image(world: World) -> None:
    spec = {"containers": [{"name": "c", "image": "registry.invalid/c:v1"}]}
    world.store.create(POD, {"metadata": {"name": "a", "namespace": "tailscale"}, "spec": spec})
    await until(world.store, lambda: "containerStatuses" in pod_status(world, "a"))
    (container,) = pod_status(world, "a")["containerStatuses"]
    assert (container["state"]["waiting"]["reason"], is_ready(world, "a")) == ("ImagePullBackOff", False)


async def test_an_egress_proxy_reports_its_own_name_once_it_finds_its_target(world: World) -> None:
    world.tailnet.has_all_targets = False
    start(world, **{"TS_TAILNET_TARGET_FQDN": "DB.tail1234.ts.net."})
    await until(world.store, lambda: "device_id" in state(world.store))
    world.tailnet.register(new_key(world.tailnet), "other")
    assert "device_fqdn" not in state(world.store)
    world.tailnet.register(new_key(world.tailnet), "db")
    await until(world.store, lambda: "device_fqdn" in state(world.store))


BAD_STATE = {"_current-profile": "profile-1234", "profile-1234": '{"Config": null}'}


@pytest.mark.parametrize(
    ("data", "variables"),
    [({"cap-107.hujson": "{"}, {}), (BAD_STATE, {}), ({}, {"TS_LOCAL_ADDR_PORT": "[$(POD_IP)]:9002"})],
)
async def test_a_proxy_that_cannot_start_crashes_again_and_again(
    world: World, data: dict[str, str], variables: dict[str, str]
) -> None:
    start(world, data, **variables)
    await until(world.store, lambda: pod_status(world).get("containerStatuses"))
    (container,) = pod_status(world)["containerStatuses"]
    assert (container["state"]["waiting"]["reason"], is_ready(world)) == ("CrashLoopBackOff", False)
    reasons = [each["reason"] for each in pod_status(world)["conditions"] if each["status"] == "False"]
    assert reasons == ["ContainersNotReady"] * 2


async def test_a_running_proxy_keeps_its_config_when_the_new_config_is_invalid(joined: World) -> None:
    joined.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"cap-107.hujson": "{"}})
    touch(joined.store, "ts-db-0")
    configure(joined.store, Hostname="renamed")
    await until(joined.store, lambda: state(joined.store)["device_fqdn"].startswith("renamed."))
    assert pod_status(joined)["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.virtual_time
@pytest.mark.parametrize(("touches", "at_least", "at_most"), [(False, 30, 61), (True, 0, 1)])
async def test_a_running_proxy_sees_a_changed_secret_when_the_kubelet_syncs_its_pod(
    touches: bool, at_least: float, at_most: float
) -> None:
    now = asyncio.get_running_loop().time
    world = World(Store(), Tailnet())
    async with running(kubelet.run(*world)):
        start(world)
        await until(world.store, lambda: "device_fqdn" in state(world.store))
        await asyncio.sleep(20)
        began = now()
        world.store.merge(SECRET, "tailscale", "ts-db-0", config_secret(Hostname="renamed"))
        if touches:
            touch(world.store, "ts-db-0")
        await until(world.store, lambda: state(world.store)["device_fqdn"].startswith("renamed."), 90)
    assert at_least <= now() - began <= at_most


async def test_the_kubelet_gives_each_new_pod_of_a_proxy_the_present_version_of_the_image() -> None:
    world = World(Store(), Tailnet())
    nodes = Kubelet(world.store, Tailnets(world.tailnet))
    async with running(nodes.run()):
        start(world, {"cap-143.hujson": '{"Version": "alpha0", "Hostname": "new"}'})
        await until(world.store, lambda: state(world.store).get("tailscale_capver") == "142")
        nodes.capability_version = 143
        await restart(world)
        assert state(world.store)["tailscale_capver"] == "143"
    assert [device.hostname for device in world.tailnet.devices.values()] == ["new"]


async def test_a_new_pod_of_a_proxy_removes_the_reports_of_an_earlier_pod_from_the_state_secret(world: World) -> None:
    stale = dict.fromkeys(("reissue_authkey", "https_endpoint", "egress-services", "ingress-config.json"), "old")
    start(world, stale)
    await until(world.store, lambda: "device_fqdn" in state(world.store))
    assert not stale.keys() & state(world.store).keys()


async def test_a_proxy_restores_a_removed_device_id_in_its_secret_only_at_its_next_start(joined: World) -> None:
    (node_id,) = joined.tailnet.devices
    joined.store.merge(SECRET, "tailscale", "ts-db-0", {"data": {"device_id": None}})
    configure(joined.store, Hostname="other")
    await until(joined.store, lambda: state(joined.store)["device_fqdn"].startswith("other."))
    assert "device_id" not in state(joined.store)
    await restart(joined)
    assert state(joined.store)["device_id"] == node_id


async def test_only_an_egress_proxy_with_an_fqdn_target_is_unready_before_it_has_joined(world: World) -> None:
    for name, variables in {"by-name": TARGET, "by-ip": {"TS_TAILNET_TARGET_IP": "100.64.10.10"}}.items():
        world.store.create(SECRET, config_secret(name))
        world.store.create(POD, proxy_pod(name, **variables))
    await until(world.store, lambda: is_ready(world, "by-ip") and "containerStatuses" in pod_status(world, "by-name"))
    assert not is_ready(world, "by-name")


async def test_the_serve_config_of_a_proxy_is_in_its_state_secret_also_after_a_restart(world: World) -> None:
    start(world, {"serve-config": '{"TCP": {}}'}, TS_SERVE_CONFIG="/etc/tailscaled/$(POD_NAME)/serve-config")
    await until(world.store, lambda: "https_endpoint" in state(world.store))
    profile = state(world.store)["_current-profile"].removeprefix("profile-")
    assert state(world.store)[f"_serve_{profile}"] == '{"TCP": {}}'
    await restart(world)
    assert f"_serve_{profile}" in state(world.store)


async def test_the_state_of_a_proxy_has_the_settings_of_a_relay_while_the_configuration_has_them(joined: World) -> None:
    port, endpoints = {"RelayServerPort": 41641}, {"RelayServerStaticEndpoints": ["203.0.113.1:41641"]}
    for relay in (port | endpoints, port, {"RelayServerPort": 0}, {}):
        configure(joined.store, Hostname="ts-db-0", **relay)
        await until(joined.store, lambda relay=relay: relay_of(joined) == relay)  # type: ignore[misc]


def relay_of(world: World) -> Object:
    """Return the settings about peer relays in the login profile that tailscaled has stored."""
    found = state(world.store)
    profile: Object = json.loads(found[found["_current-profile"]])
    return {name: value for name, value in profile.items() if name.startswith("Relay")}
