import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
from clustersim import kubelet
from clustersim.objects import NODE, POD, SECRET
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnet, Tailnets

from tests.loadtest.clustersim.running import config_secret, configure, new_key, proxy_pod, running, state, until

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
    """A world with a proxy that has joined the tailnet, and whose key is used up."""
    start(world, **TARGET)
    await logged_in(world)
    configure(world.store, Hostname="ts-db-0")
    return world


def start(world: World, more: dict[str, str] | None = None, /, **variables: str) -> None:
    """Start a proxy whose Secret holds a good key and *more*."""
    secret = config_secret(AuthKey=new_key(world.tailnet), Hostname="ts-db-0")
    secret["stringData"] |= more or {}
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod(**variables))


async def restart(world: World) -> None:
    """Replace the Pod, and wait until the next one is ready."""
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: is_ready(world))


def pod_status(world: World, name: str = "ts-db-0") -> Any:
    return world.store.get(POD, "tailscale", name).get("status", {})


def is_ready(world: World, name: str = "ts-db-0") -> bool:
    return {"Ready": "True"} in [{c["type"]: c["status"]} for c in pod_status(world, name).get("conditions", ())]


def waits_for(world: World) -> Any:
    containers = pod_status(world).get("containerStatuses", [{}])
    return containers[0].get("state", {}).get("waiting", {}).get("reason")


def restarts(world: World) -> Any:
    return pod_status(world)["containerStatuses"][0]["restartCount"]


async def logged_in(world: World) -> None:
    await until(world.store, lambda: "device_fqdn" in state(world.store))


@pytest.mark.parametrize("families", [("IPv4", "IPv6"), ("IPv6",)])
async def test_every_pod_gets_a_node_and_addresses_of_its_own(families: tuple[str, ...]) -> None:
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


async def test_a_proxy_joins_and_reports_its_device(world: World) -> None:
    with world.store.subscribe(SECRET) as changes:
        start(world)
        await logged_in(world)
        history = [change.object["data"].keys() for change in await changes.batch()]
    assert any("device_id" in keys and "device_fqdn" not in keys for keys in history)
    (device,) = world.tailnet.devices.values()
    data = state(world.store)
    assert data["device_id"] == device.node_id
    assert data["device_fqdn"] == "ts-db-0.tail1234.ts.net."
    assert json.loads(data["device_ips"]) == list(device.addresses)
    assert data["pod_uid"] == world.store.get(POD, "tailscale", "ts-db-0")["metadata"]["uid"]


async def test_a_proxy_reports_its_name_once_it_finds_the_one_that_it_leads_to(world: World) -> None:
    world.tailnet.has_all_targets = False
    start(world, **{"TS_TAILNET_TARGET_FQDN": "DB.tail1234.ts.net."})
    await until(world.store, lambda: "device_id" in state(world.store))
    world.tailnet.register(new_key(world.tailnet), "other")
    assert "device_fqdn" not in state(world.store)
    world.tailnet.register(new_key(world.tailnet), "db")
    await logged_in(world)


BAD_STATE = {"_current-profile": "profile-1234", "profile-1234": '{"Config": null}'}


@pytest.mark.parametrize("data", [{"cap-107.hujson": "{"}, BAD_STATE])
async def test_a_bad_secret_keeps_the_proxy_crashing_until_it_is_mended(world: World, data: dict[str, str]) -> None:
    start(world, data)
    await until(world.store, lambda: waits_for(world) == "CrashLoopBackOff")
    assert not is_ready(world)
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"data": {"_current-profile": None}})
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))


async def test_a_bad_reload_leaves_a_running_proxy_alone(joined: World) -> None:
    joined.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"cap-107.hujson": "{"}})
    configure(joined.store, Hostname="renamed")
    await until(joined.store, lambda: state(joined.store)["device_fqdn"].startswith("renamed."))
    assert restarts(joined) == 0


async def test_a_restarted_proxy_keeps_its_device_without_a_key(joined: World) -> None:
    before = state(joined.store)
    await restart(joined)
    after = state(joined.store)
    assert after["device_id"] == before["device_id"]
    assert after["pod_uid"] != before["pod_uid"]
    assert len(joined.tailnet.devices) == 1


async def test_a_refused_key_is_reported_and_the_next_one_tried(world: World) -> None:
    world.store.create(SECRET, config_secret(AuthKey="tskey-auth-wrong"))
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "tskey-auth-wrong")
    assert not is_ready(world)
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))
    assert ("reissue_authkey" in state(world.store), restarts(world)) == (False, 1)


async def test_a_boot_resets_the_reports_of_an_earlier_pod(world: World) -> None:
    stale = dict.fromkeys(("reissue_authkey", "https_endpoint", "egress-services", "ingress-config.json"), "old")
    start(world, stale)
    await logged_in(world)
    assert not stale.keys() & state(world.store).keys()


@pytest.mark.parametrize("lose", [Tailnet.delete_device, Tailnet.expire_device])
async def test_a_proxy_whose_device_is_lost_starts_again_and_asks_for_a_key(
    joined: World, lose: Callable[[Tailnet, Device], None]
) -> None:
    world, old = joined, state(joined.store)
    lose(world.tailnet, world.tailnet.devices[old["device_id"]])
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "")
    assert not is_ready(world)
    assert not any(device.connected for device in world.tailnet.devices.values())
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))
    new = state(world.store)
    assert new["device_id"] != old["device_id"]
    assert sum(key.startswith("profile-") for key in new) == 1
    assert restarts(world) == 2


async def test_a_proxy_whose_device_is_lost_takes_the_key_that_is_there(joined: World) -> None:
    world, old = joined, state(joined.store)
    configure(world.store, AuthKey=new_key(world.tailnet))
    world.tailnet.delete_device(world.tailnet.devices[old["device_id"]])
    await until(world.store, lambda: state(world.store)["device_id"] != old["device_id"])
    assert (restarts(world), "reissue_authkey" in state(world.store)) == (1, False)
    assert sum(key.startswith("profile-") for key in state(world.store)) == 1


async def test_a_request_that_was_not_answered_stays_after_a_start_that_went_well(joined: World) -> None:
    (node_id,) = joined.tailnet.devices
    joined.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"reissue_authkey": ""}})
    await restart(joined)
    assert (state(joined.store)["reissue_authkey"], state(joined.store)["device_id"]) == ("", node_id)


async def test_a_key_that_is_taken_from_the_secret_is_reported_again_by_the_next_start_only(joined: World) -> None:
    (node_id,) = joined.tailnet.devices
    joined.store.merge(SECRET, "tailscale", "ts-db-0", {"data": {"device_id": None}})
    configure(joined.store, Hostname="other")
    await until(joined.store, lambda: state(joined.store)["device_fqdn"].startswith("other."))
    assert "device_id" not in state(joined.store)
    await restart(joined)
    assert state(joined.store)["device_id"] == node_id


async def test_only_an_egress_proxy_by_name_is_unready_before_it_has_joined(world: World) -> None:
    for name, variables in {"by-name": TARGET, "by-ip": {"TS_TAILNET_TARGET_IP": "100.64.10.10"}}.items():
        world.store.create(SECRET, config_secret(name))
        world.store.create(POD, proxy_pod(name, **variables))
    await until(world.store, lambda: is_ready(world, "by-ip") and "containerStatuses" in pod_status(world, "by-name"))
    assert not is_ready(world, "by-name")


async def test_a_proxy_remembers_its_serve_config_until_that_is_removed(world: World) -> None:
    start(world, {"serve-config": '{"TCP": {}}'}, TS_SERVE_CONFIG="/etc/tailscaled/$(POD_NAME)/serve-config")
    await until(world.store, lambda: "https_endpoint" in state(world.store))
    profile = state(world.store)["_current-profile"].removeprefix("profile-")
    assert state(world.store)[f"_serve_{profile}"] == '{"TCP": {}}'
    await restart(world)
    assert f"_serve_{profile}" in state(world.store)


async def test_a_proxy_joins_the_tailnet_whose_control_server_it_is_told_of() -> None:
    store, tailnets = Store(), Tailnets(Tailnet())
    other = tailnets.others["http://192.0.2.1:8080"] = Tailnet("tail5678.ts.net", first=1001)
    async with running(kubelet.Kubelet(store, tailnets).run()):
        for url, tailnet in {"http://192.0.2.1:8080/": other, "http://192.0.2.1": tailnets.main}.items():
            secret = config_secret(AuthKey=new_key(tailnet), Hostname="ts-db-0", ServerURL=url)
            store.create(SECRET, secret)
            store.create(POD, proxy_pod(**TARGET))
            await until(store, lambda: "device_fqdn" in state(store))
            assert state(store)["device_fqdn"] == f"ts-db-0.{tailnet.domain}."
            assert state(store)["device_id"] in tailnet.devices
            store.delete(POD, "tailscale", "ts-db-0")
            store.delete(SECRET, "tailscale", "ts-db-0")
    assert [*other.devices] == ["n001001CNTRL"]


async def test_a_proxy_that_is_to_listen_at_no_address_crashes(world: World) -> None:
    start(world, TS_LOCAL_ADDR_PORT="[$(POD_IP)]:9002")
    await until(world.store, lambda: waits_for(world) == "CrashLoopBackOff")
    assert not is_ready(world)
