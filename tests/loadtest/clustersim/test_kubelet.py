import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
from clustersim import kubelet
from clustersim.objects import NODE, POD, SECRET
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnet

from tests.loadtest.clustersim.running import config_secret, configure, new_key, proxy_pod, running, state, until

TARGET = {"TS_TAILNET_TARGET_FQDN": "db.tail1234.ts.net."}
SERVE = {"TS_SERVE_CONFIG": "/etc/tailscaled/$(POD_NAME)/serve-config"}


class World(NamedTuple):
    store: Store
    tailnet: Tailnet


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store, tailnet = Store(), Tailnet()
    async with running(kubelet.run(store, tailnet)):
        yield World(store, tailnet)


def start(world: World, name: str = "ts-db-0", **variables: str) -> None:
    """Start a proxy whose Secret holds a good key."""
    secret = config_secret(name, AuthKey=new_key(world.tailnet), Hostname=name)
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod(name, **variables))


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


async def test_every_pod_gets_a_node_and_addresses_of_its_own(world: World) -> None:
    for name in ("a", "b"):
        pod = {"metadata": {"name": name, "namespace": "tailscale"}, "spec": {"containers": [{"name": "c"}]}}
        world.store.create(POD, pod)
    await until(world.store, lambda: is_ready(world, "a") and is_ready(world, "b"))
    pods = [world.store.get(POD, "tailscale", name) for name in ("a", "b")]
    assert all(world.store.find(NODE, "", pod["spec"]["nodeName"]) for pod in pods)
    assert [[entry["ip"] for entry in pod["status"]["podIPs"]] for pod in pods] == [
        ["10.244.0.2", "2001:db8:244::2"],
        ["10.244.0.3", "2001:db8:244::3"],
    ]
    assert all(pod["status"]["phase"] == "Running" for pod in pods)


async def test_a_proxy_joins_and_reports_its_device(world: World) -> None:
    start(world)
    await logged_in(world)
    (device,) = world.tailnet.devices.values()
    data = state(world.store)
    assert data["device_id"] == device.node_id
    assert data["device_fqdn"] == "ts-db-0.tail1234.ts.net."
    assert json.loads(data["device_ips"]) == list(device.addresses)
    assert data["pod_uid"] == world.store.get(POD, "tailscale", "ts-db-0")["metadata"]["uid"]
    assert data["tailscale_capver"] == "140"


async def test_the_device_id_is_written_before_the_name(world: World) -> None:
    with world.store.subscribe(SECRET) as changes:
        start(world)
        await logged_in(world)
        history = [change.object["data"].keys() for change in await changes.batch()]
    first = {key: next(i for i, keys in enumerate(history) if key in keys) for key in ("device_id", "device_fqdn")}
    assert first["device_id"] < first["device_fqdn"]


async def test_the_newest_config_that_is_understood_counts(world: World) -> None:
    secret = config_secret(AuthKey=new_key(world.tailnet), Hostname="right")
    wrong = json.dumps({"Version": "alpha0", "Hostname": "wrong"})
    secret["stringData"] |= {"cap-95.hujson": wrong, "cap-9999.hujson": wrong}
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod())
    await logged_in(world)
    assert [device.hostname for device in world.tailnet.devices.values()] == ["right"]


class Bad(NamedTuple):
    fact: str
    text: str | None


BAD_CONFIGS = [
    Bad("no file", None),
    Bad("not JSON", "{"),
    Bad("another version", '{"Version": "alpha1"}'),
    Bad("an unknown field", '{"Version": "alpha0", "Nonsense": true}'),
    Bad("a wrong type", '{"Version": "alpha0", "Hostname": 1}'),
]


@pytest.mark.parametrize("case", BAD_CONFIGS, ids=lambda case: case.fact)
async def test_a_bad_config_keeps_the_proxy_crashing_until_it_is_mended(world: World, case: Bad) -> None:
    data = {} if case.text is None else {"cap-107.hujson": case.text}
    world.store.create(SECRET, {"metadata": {"name": "ts-db-0", "namespace": "tailscale"}, "stringData": data})
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: waits_for(world) == "CrashLoopBackOff")
    assert not is_ready(world)
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))


async def test_a_proxy_waits_for_its_secret(world: World) -> None:
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: waits_for(world) == "ContainerCreating")
    assert (pod_status(world)["phase"], "podIP" in pod_status(world)) == ("Pending", False)
    world.store.create(SECRET, config_secret(AuthKey=new_key(world.tailnet)))
    await until(world.store, lambda: is_ready(world))
    assert pod_status(world)["podIP"] == "10.244.0.2"


async def test_a_bad_reload_leaves_a_running_proxy_alone(world: World) -> None:
    start(world)
    await logged_in(world)
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"cap-107.hujson": "{"}})
    configure(world.store, Hostname="renamed")
    await until(world.store, lambda: state(world.store)["device_fqdn"].startswith("renamed."))
    assert pod_status(world)["containerStatuses"][0]["restartCount"] == 0


async def test_a_restarted_proxy_keeps_its_device_without_a_key(world: World) -> None:
    start(world)
    await logged_in(world)
    before = state(world.store)
    configure(world.store, Hostname="ts-db-0")
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: is_ready(world))
    after = state(world.store)
    assert after["device_id"] == before["device_id"]
    assert after["pod_uid"] != before["pod_uid"]
    assert len(world.tailnet.devices) == 1


@pytest.mark.parametrize("profile", ["{", '{"Config": null}', "[]"])
async def test_an_unreadable_state_keeps_the_proxy_crashing(world: World, profile: str) -> None:
    secret = config_secret(AuthKey=new_key(world.tailnet))
    secret["stringData"] |= {"_current-profile": "profile-1234", "profile-1234": profile}
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: waits_for(world) == "CrashLoopBackOff")
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"data": {"_current-profile": None}})
    await logged_in(world)


async def test_a_refused_key_is_reported_and_another_one_tried(world: World) -> None:
    world.store.create(SECRET, config_secret(AuthKey="tskey-auth-wrong"))
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "tskey-auth-wrong")
    assert not is_ready(world)
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))
    assert "reissue_authkey" not in state(world.store)
    assert pod_status(world)["containerStatuses"][0]["restartCount"] == 1


async def test_a_missing_key_is_reported_as_empty(world: World) -> None:
    world.store.create(SECRET, config_secret())
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "")


async def test_a_pod_boots_on_when_the_key_was_replaced_while_it_was_away(world: World) -> None:
    secret = config_secret(AuthKey=new_key(world.tailnet))
    secret["stringData"]["reissue_authkey"] = "tskey-auth-wrong"
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod())
    await logged_in(world)
    assert "reissue_authkey" not in state(world.store)


@pytest.mark.parametrize("lose", [Tailnet.delete_device, Tailnet.expire_device])
async def test_a_proxy_whose_device_is_lost_starts_again_and_asks_for_a_key(
    world: World, lose: Callable[[Tailnet, Device], None]
) -> None:
    start(world, **TARGET)
    await logged_in(world)
    old = state(world.store)
    configure(world.store)
    lose(world.tailnet, world.tailnet.devices[old["device_id"]])
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "")
    assert not is_ready(world)
    configure(world.store, AuthKey=new_key(world.tailnet))
    await until(world.store, lambda: is_ready(world))
    new = state(world.store)
    assert new["device_id"] != old["device_id"]
    assert sum(key.startswith("profile-") for key in new) == 1
    assert restarts(world) == 2


async def test_a_proxy_that_asks_for_a_key_has_let_go_of_the_control_server(world: World) -> None:
    start(world)
    await logged_in(world)
    (device,) = world.tailnet.devices.values()
    configure(world.store)
    world.tailnet.expire_device(device)
    await until(world.store, lambda: state(world.store).get("reissue_authkey") == "")
    assert (device.connected, world.tailnet.devices[device.node_id].connected) == (True, False)


async def test_a_proxy_whose_device_is_lost_takes_the_key_that_is_there(world: World) -> None:
    start(world, **TARGET)
    await logged_in(world)
    old = state(world.store)
    configure(world.store, AuthKey=new_key(world.tailnet))
    world.tailnet.delete_device(world.tailnet.devices[old["device_id"]])
    await until(world.store, lambda: state(world.store)["device_id"] != old["device_id"])
    assert (restarts(world), "reissue_authkey" in state(world.store)) == (1, False)
    assert sum(key.startswith("profile-") for key in state(world.store)) == 1


async def test_a_request_that_was_not_answered_stays_after_a_start_that_went_well(world: World) -> None:
    start(world)
    await logged_in(world)
    configure(world.store)
    (node_id,) = world.tailnet.devices
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"reissue_authkey": ""}})
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod(**TARGET))
    await until(world.store, lambda: is_ready(world))
    assert (state(world.store)["reissue_authkey"], state(world.store)["device_id"]) == ("", node_id)


async def test_what_is_taken_from_the_secret_is_reported_again_by_the_next_start_only(world: World) -> None:
    start(world)
    await logged_in(world)
    (node_id,) = world.tailnet.devices
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"data": {"device_id": None}})
    configure(world.store, Hostname="other")
    await until(world.store, lambda: state(world.store)["device_fqdn"].startswith("other."))
    assert "device_id" not in state(world.store)
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: state(world.store).get("device_id") == node_id)


async def test_a_new_hostname_renames_the_device(world: World) -> None:
    start(world)
    await logged_in(world)
    configure(world.store, Hostname="other")
    await until(world.store, lambda: state(world.store)["device_fqdn"] == "other.tail1234.ts.net.")
    assert [device.hostname for device in world.tailnet.devices.values()] == ["other"]


async def test_a_connector_advertises_what_its_config_says_while_it_runs(world: World) -> None:
    start(world)
    await logged_in(world)
    (node_id,) = world.tailnet.devices
    routes = ["10.40.0.0/14", "2001:db8::/32"]
    configure(world.store, AdvertiseRoutes=routes, AppConnector={"Advertise": True})
    await until(world.store, lambda: world.tailnet.devices[node_id].advertised_routes == tuple(routes))
    assert world.tailnet.devices[node_id].app_connector
    configure(world.store, Hostname="other")
    await until(world.store, lambda: state(world.store)["device_fqdn"].startswith("other."))
    assert world.tailnet.devices[node_id].advertised_routes == tuple(routes)
    configure(world.store, AdvertiseRoutes=[], Hostname="third")
    await until(world.store, lambda: state(world.store)["device_fqdn"].startswith("third."))
    assert world.tailnet.devices[node_id].advertised_routes == ()


async def test_a_pod_waits_for_all_secrets_that_it_mounts(world: World) -> None:
    world.store.create(SECRET, config_secret(AuthKey=new_key(world.tailnet)))
    pod = proxy_pod()
    pod["spec"]["volumes"].append({"name": "tailscaledconfig-1", "secret": {"secretName": "ts-db-1"}})
    world.store.create(POD, pod)
    await until(world.store, lambda: waits_for(world) == "ContainerCreating")
    assert not world.tailnet.devices
    world.store.create(SECRET, config_secret("ts-db-1"))
    await logged_in(world)


async def test_only_an_egress_proxy_by_name_is_unready_before_it_has_joined(world: World) -> None:
    for name, variables in {"by-name": TARGET, "by-ip": {"TS_TAILNET_TARGET_IP": "100.64.10.10"}}.items():
        world.store.create(SECRET, config_secret(name))
        world.store.create(POD, proxy_pod(name, **variables))
    await until(world.store, lambda: is_ready(world, "by-ip") and "containerStatuses" in pod_status(world, "by-name"))
    assert not is_ready(world, "by-name")


@pytest.mark.parametrize(("https", "endpoint"), [(True, "ts-db-0.tail1234.ts.net"), (False, "no-https")])
async def test_a_serve_config_makes_an_https_endpoint(world: World, https: bool, endpoint: str) -> None:
    world.tailnet.https = https
    start(world, **SERVE)
    await logged_in(world)
    assert "https_endpoint" not in state(world.store)
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"serve-config": '{"TCP": {}}'}})
    await until(world.store, lambda: state(world.store).get("https_endpoint") == endpoint)


async def test_a_proxy_remembers_what_it_served_until_that_is_removed(world: World) -> None:
    start(world, **SERVE)
    world.store.merge(SECRET, "tailscale", "ts-db-0", {"stringData": {"serve-config": '{"TCP": {}}'}})
    await until(world.store, lambda: "https_endpoint" in state(world.store))
    profile = state(world.store)["_current-profile"].removeprefix("profile-")
    assert state(world.store)[f"_serve_{profile}"] == '{"TCP": {}}'
    world.store.delete(POD, "tailscale", "ts-db-0")
    world.store.create(POD, proxy_pod())
    await until(world.store, lambda: is_ready(world))
    assert f"_serve_{profile}" in state(world.store)


async def test_a_boot_resets_what_an_earlier_pod_reported(world: World) -> None:
    secret = config_secret(AuthKey=new_key(world.tailnet))
    secret["stringData"] |= {"https_endpoint": "old", "egress-services": "{}", "ingress-config.json": "{}"}
    world.store.create(SECRET, secret)
    world.store.create(POD, proxy_pod())
    await logged_in(world)
    assert not {"https_endpoint", "egress-services", "ingress-config.json"} & state(world.store).keys()


async def test_a_hundred_proxies_are_up_with_a_few_writes_each(world: World) -> None:
    before = world.store.revision
    names = [f"ts-{number}-0" for number in range(100)]
    for name in names:
        start(world, name, **TARGET)
    await until(world.store, lambda: all(is_ready(world, name) for name in names))
    assert world.store.revision - before <= 8 * len(names)
    assert len({pod_status(world, name)["podIP"] for name in names}) == 100


async def test_pods_have_addresses_of_the_families_of_the_cluster() -> None:
    store = Store()
    async with running(kubelet.run(store, Tailnet(), ["IPv6"])):
        store.create(
            POD, {"metadata": {"name": "a", "namespace": "tailscale"}, "spec": {"containers": [{"name": "c"}]}}
        )
        await until(store, lambda: "podIP" in store.get(POD, "tailscale", "a").get("status", {}))
    status = store.get(POD, "tailscale", "a")["status"]
    assert (status["podIP"], status["podIPs"]) == ("2001:db8:244::2", [{"ip": "2001:db8:244::2"}])


async def test_a_proxy_that_is_to_listen_at_no_address_crashes(world: World) -> None:
    start(world, TS_LOCAL_ADDR_PORT="[$(POD_IP)]:9002")
    await until(world.store, lambda: waits_for(world) == "CrashLoopBackOff")
    assert not is_ready(world)
