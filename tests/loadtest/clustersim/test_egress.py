"""The proxies of a ProxyGroup of type egress."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from clustersim import kubelet
from clustersim.controller import Key
from clustersim.egress import Egress, Health
from clustersim.objects import CONFIGMAP, ENDPOINTSLICE, POD, SECRET, Object
from clustersim.proxyconfig import ConfigError
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnet

from tests.loadtest.clustersim.running import entry, group_files, group_pod, new_key, running, start_group, state, until

NAME = Key("tailscale", "foo-egress-config")
ADDRESSES = {"podIPv4": "10.244.0.2", "podIPv6": ""}


class World(NamedTuple):
    store: Store
    tailnet: Tailnet

    def pod(self, name: str = "foo-0") -> Any:
        return self.store.find(POD, "tailscale", name)

    def report(self, name: str = "foo-0") -> Any:
        return json.loads(state(self.store, name).get("egress-services", "0"))

    def serve(self, entries: Object | None) -> None:
        """Change what the proxies are to forward."""
        self.store.merge(CONFIGMAP, *NAME, {"binaryData": {"egress-services": None, **group_files(entries)}})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A cluster whose ProxyGroup has all that its Pods need, and no Pod."""
    store, tailnet = Store(), Tailnet()
    start_group(store, tailnet)
    async with running(kubelet.run(store, tailnet)):
        yield World(store, tailnet)


@pytest.fixture
async def joined(world: World) -> World:
    """A world with a proxy that has joined the tailnet."""
    world.store.create(POD, group_pod())
    await until(world.store, lambda: "device_fqdn" in state(world.store, "foo-0"))
    return world


def peer(tailnet: Tailnet, name: str = "db") -> Device:
    return tailnet.register(new_key(tailnet), name)


async def test_a_replica_reads_its_config_and_writes_its_state(joined: World) -> None:
    found = state(joined.store, "foo-0")
    profile = json.loads(found[found["_current-profile"]])
    (device,) = joined.tailnet.devices.values()
    assert (found["device_fqdn"], found["pod_uid"]) == ("foo-0.tail1234.ts.net.", joined.pod()["metadata"]["uid"])
    assert profile["Config"]["NodeID"] == found["device_id"] == device.node_id
    assert "egress-services" not in found
    assert state(joined.store, "foo-0-config").keys() == {"cap-106.hujson"}


@pytest.mark.parametrize(
    ("resource", "name", "word"),
    [(CONFIGMAP, "foo-egress-config", "configmap"), (SECRET, "foo-1-config", "secret"), (SECRET, "foo-0", "secret")],
)
async def test_a_replica_waits_for_all_that_it_mounts(world: World, resource: Any, name: str, word: str) -> None:
    missing = world.store.get(resource, "tailscale", name)
    world.store.delete(resource, "tailscale", name)
    world.store.create(POD, group_pod())
    await until(world.store, lambda: "containerStatuses" in world.pod()["status"])
    status = world.pod()["status"]
    assert (status["phase"], "podIP" in status, world.tailnet.devices) == ("Pending", False, {})
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating", "message": f'{word} "{name}" not found'}
    metadata = {"namespace": "tailscale", "name": name}
    world.store.create(resource, {**missing, "metadata": metadata})
    await until(world.store, lambda: "device_fqdn" in state(world.store, "foo-0"))
    assert world.pod()["status"]["podIP"] == "10.244.0.2"


async def test_a_replica_reports_each_change_of_its_entries(joined: World) -> None:
    db = peer(joined.tailnet)
    entries = {
        "default-db": entry(fqdn="DB.tail1234.ts.net."),
        "default-ip": entry("100.64.9.9"),
        "x-y": entry(fqdn="x"),
    }
    joined.serve(entries)
    await until(joined.store, joined.report)
    ips = {name: each.pop("tailnetTargetIPs") for name, each in joined.report()["services"].items()}
    assert ips == {"default-db": list(db.addresses), "default-ip": ["100.64.9.9"], "x-y": None}
    assert (joined.report()["podIPv4"], joined.report()["podIPv6"]) == ("10.244.0.2", "2001:db8:244::2")
    assert joined.report()["services"]["x-y"].keys() == {"ports", "tailnetTarget", "tailnetTargetIPs"}
    assert joined.report()["services"]["x-y"]["ports"] == entries["x-y"]["ports"]
    joined.serve(None)
    await until(joined.store, lambda: joined.report()["services"] is None)


async def test_a_replica_follows_the_device_that_it_leads_to(joined: World) -> None:
    def target() -> Any:
        return joined.report()["services"]["default-db"]["tailnetTargetIPs"]

    joined.serve({"default-db": entry(fqdn="db.tail1234.ts.net")})
    await until(joined.store, joined.report)
    assert target() is None
    db = peer(joined.tailnet)
    await until(joined.store, lambda: target() == list(db.addresses))
    joined.tailnet.delete_device(db)
    await until(joined.store, lambda: target() is None)


async def test_a_report_that_somebody_spoils_stays_so_until_the_next_news(joined: World) -> None:
    joined.serve({"default-db": entry("100.64.9.9")})
    await until(joined.store, joined.report)
    joined.store.merge(SECRET, "tailscale", "foo-0", {"stringData": {"egress-services": "{"}})
    joined.store.create(POD, group_pod(1))
    await until(joined.store, lambda: joined.report("foo-1"))
    assert state(joined.store, "foo-0")["egress-services"] == "{"
    joined.serve({"default-db": entry("100.64.9.10")})
    await until(joined.store, lambda: state(joined.store, "foo-0")["egress-services"] != "{")


async def test_a_replica_that_gets_no_answer_joins_when_there_is_one(world: World) -> None:
    world.tailnet.silent.add("foo-0")
    world.store.create(POD, group_pod())
    await until(world.store, lambda: "pod_uid" in state(world.store, "foo-0"))
    assert not state(world.store, "foo-0").keys() & {"device_id", "reissue_authkey"}
    world.tailnet.silent.clear()
    await until(world.store, lambda: "device_fqdn" in state(world.store, "foo-0"))


@pytest.mark.parametrize("text", ["{", "[]", '{"a-b": {"ports": []}}'])
def test_a_document_that_cannot_be_read_is_an_error(text: str) -> None:
    store = Store()
    store.create(
        CONFIGMAP, {"metadata": {"namespace": "tailscale", "name": NAME.name}, "data": {"egress-services": text}}
    )
    with pytest.raises(ConfigError):
        Egress(store, NAME, ADDRESSES).report(Tailnet())


HEALTH = "http://ts-db.tailscale.svc.cluster.local:9002/healthz"


@pytest.mark.parametrize(
    ("entries", "pings", "ready", "routed"),
    [
        ({"default-db": entry(health=HEALTH)}, 6, True, True),
        ({"default-db": entry(health=HEALTH)}, 6, None, True),
        ({"default-db": entry(health=HEALTH)}, 6, False, False),
        ({"default-db": entry(health=HEALTH)}, 0, True, False),
        ({"default-db": entry(health=HEALTH.replace("ts-db", "ts-x"))}, 6, True, False),
        ({"default-db": entry()}, 6, True, False),
        (None, 6, True, False),
    ],
)
def test_a_proxy_that_ends_waits_for_the_health_services_of_its_entries(
    entries: Object | None, pings: int, ready: bool | None, routed: bool
) -> None:
    store = Store()
    start_group(store, Tailnet(), entries, pings)
    store.create(ENDPOINTSLICE, endpointslice({"ready": ready}))
    assert Egress(store, NAME, ADDRESSES).is_routed() is routed
    assert not Egress(store, NAME, {"podIPv4": "10.244.0.3"}).is_routed()


def endpointslice(conditions: Object) -> Object:
    labels = {"kubernetes.io/service-name": "ts-db"}
    return {
        "metadata": {"name": "ts-db-ipv4", "namespace": "tailscale", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.244.0.2"], "conditions": conditions}],
    }


async def test_a_pod_with_a_hook_stays_until_no_service_leads_to_it(world: World) -> None:
    await end(world, seconds=3600)
    world.store.create(POD, group_pod(1))
    await until(world.store, lambda: "device_fqdn" in state(world.store, "foo-1"))  # so the node has seen the deletion
    world.store.delete(ENDPOINTSLICE, "tailscale", "ts-db-ipv4")
    assert world.pod() is not None
    await until(world.store, lambda: world.pod() is None)


async def test_a_pod_that_services_lead_to_ends_with_its_grace_period(world: World) -> None:
    now = asyncio.get_running_loop().time
    await end(world, seconds=30)
    started = now()
    await until(world.store, lambda: world.pod() is None)
    assert now() - started > 29 * kubelet.SECOND


async def test_a_pod_that_no_service_leads_to_drains(joined: World) -> None:
    now = asyncio.get_running_loop().time
    started = now()
    joined.store.delete(POD, "tailscale", "foo-0")
    await until(joined.store, lambda: joined.pod() is None)
    assert now() - started > 9 * kubelet.SECOND


async def test_a_pod_that_is_killed_is_gone_at_once(world: World) -> None:
    await end(world, seconds=3600)
    world.store.delete(POD, "tailscale", "foo-0", grace=0)
    assert world.pod() is None


async def end(world: World, seconds: int) -> None:
    """Delete a Pod that a health Service leads to, and that has so many *seconds* to end."""
    pod = group_pod()
    pod["spec"]["terminationGracePeriodSeconds"] = seconds
    world.store.create(POD, pod)
    world.serve({"default-db": entry(health=HEALTH)})
    await until(world.store, world.report)
    world.store.create(ENDPOINTSLICE, endpointslice({"ready": True}))
    world.store.delete(POD, "tailscale", "foo-0")


@pytest.mark.parametrize(("headscale", "login"), [(False, "foo-0.tail1234.ts.net"), (True, "tagged-devices")])
async def test_a_login_name_depends_on_the_control_server(headscale: bool, login: str) -> None:
    store, tailnet = Store(), Tailnet(headscale=headscale)
    start_group(store, tailnet)
    async with running(kubelet.run(store, tailnet)):
        store.create(POD, group_pod())
        await until(store, lambda: "_current-profile" in state(store, "foo-0"))
    found = state(store, "foo-0")
    assert json.loads(found[found["_current-profile"]])["Config"]["UserProfile"] == {"LoginName": login}


class Case(NamedTuple):
    image: str = "example.org/tailscale"
    enabled: str = "true"
    listening: str = "[::]:9002"
    has_joined: bool = True
    answer: Any = (200, {"Pod-IPv4": "10.244.0.2"})


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case("example.org/tailscale:v1.80.0"),
        Case("example.org/tailscale:v1.78.1", answer=(200, {})),
        Case(has_joined=False, answer=(503, {})),
        Case(listening="[::]:9003", answer=None),
        Case(enabled="", answer=None),
    ],
)
def test_the_health_port_names_the_pod(case: Case) -> None:
    env = {"TS_ENABLE_HEALTH_CHECK": case.enabled, "TS_LOCAL_ADDR_PORT": case.listening}
    health = Health({"image": case.image}, env, {"Pod-IPv4": "10.244.0.2", "Pod-IPv6": ""})
    assert health.answer(9002, case.has_joined) == case.answer
