"""PeerRelays on a cluster with a running operator: the tests check the state of the cluster and of the tailnet."""

import base64
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import pytest
from clustersim.loadbalancers import Shown
from clustersim.tailnet import NewKey
from tsoperator.api.objects import POD, PROXYCLASS, SECRET, SERVICE, STATEFULSET, TAILNET, Key, Object, key_of, uid
from tsoperator.kube.errors import NotFound
from tsoperator.reconcilers.peerrelay.addresses import ADDRESSES, HostAddresses
from tsoperator.reconcilers.peerrelay.reconciler import peerrelays
from tsoperator.reconcilers.proxies import Proxies
from tsoperator.runtime.cache import Cache
from tsoperator.sources import sources

from tests.operator.contract.memory import remembered
from tests.support.cluster import running
from tests.support.manifests import DOMAIN, peer_relay
from tests.support.objects import obj, settings, texts
from tests.support.operator import NAMESPACE, World, running_operator
from tests.support.othertailnet import NAME, other_tailnet

READY = "PeerRelayReady"
IMAGE = "tailscale/tailscale:stable"
NAMES = ("edge", "gate")
LABELS = {
    "tailscale.com/managed": "true",
    "tailscale.com/parent-resource-type": "peerrelay",
    "tailscale.com/parent-resource": "relay",
}


async def endpoints(world: World, relay: Object) -> list[tuple[int, str]]:
    """Return the endpoints in the status of *relay*: the replica and the address of each."""
    found = ((await world.look(relay)).get("status") or {}).get("endpoints") or ()
    return [(each["replica"], each["address"]) for each in found]


async def told(world: World, relay: Object) -> list[list[str]]:
    """Return the endpoints in the config of each replica."""
    configs = [texts(each) for each in await world.children(SECRET, relay) if key_of(each).name.endswith("-config")]
    return [json.loads(each["cap-142.hujson"]).get("RelayServerStaticEndpoints", []) for each in configs]


async def balanced(world: World, relay: Object) -> list[str]:
    """Return the address of each replica's load balancer."""
    entries = [each["status"]["loadBalancer"]["ingress"] for each in await world.children(SERVICE, relay)]
    return [entry["ip"] for (entry,) in entries]


async def ready(world: World, relay: Object, replicas: int = 1) -> None:
    """Wait until *relay* is ready with *replicas* replicas, and the operator has settled."""

    async def whole() -> bool:
        secrets = await world.children(SECRET, relay)
        pods = await world.children(POD, relay)
        complete = len(secrets) == 2 * replicas and len(pods) == replicas == len({*await endpoints(world, relay)})
        return complete and await world.reason(relay, READY) == READY

    await world.eventually(whole)
    await world.settled()


async def test_the_status_and_the_configs_of_a_peerrelay_have_the_address_of_each_relay(world: World) -> None:
    relay = peer_relay(replicas=2)
    await world.apply(relay)
    await ready(world, relay, 2)
    found = await balanced(world, relay)
    assert await endpoints(world, relay) == list(enumerate(found))
    assert await told(world, relay) == [[f"{address}:41641"] for address in found]
    assert await world.device_names() == [f"relay-0.{DOMAIN}", f"relay-1.{DOMAIN}"]
    await world.restart()
    assert not await world.writes_when_left_alone()


async def test_a_peerrelay_leaves_nothing_behind_when_replicas_are_added_and_removed(world: World) -> None:
    relay = peer_relay(replicas=0)
    await world.apply(relay)
    kept: list[str] = []
    for replicas in (0, 3, 1, 0):
        await world.change(relay, {"spec": {"replicas": replicas}})
        await ready(world, relay, replicas)
        names = [f"peerrelay-relay-{number}" for number in range(replicas)]
        assert [key_of(each).name for each in await world.children(SERVICE, relay)] == names
        assert await world.device_names() == [f"relay-{number}.{DOMAIN}" for number in range(replicas)]
        assert not await world.writes_when_left_alone()
        devices = [*world.control.devices]
        assert replicas != 1 or devices == kept[:1]
        kept = devices
    await world.delete(relay)
    await world.eventually(lambda: world.gone(relay))
    assert await world.leftovers(relay) == []


EVENTS = ("operator", "three", "one", "lost", "deleted")
USUAL = [
    EVENTS,
    EVENTS[::-1],
    ("three", "operator", "one", "deleted", "lost"),
    ("operator", "three*", "one", "deleted"),
]


def orders() -> Iterator[object]:
    """Yield the orders in which `EVENTS` happen. The operator settles after an event whose name has a star."""
    for order in (*USUAL, *itertools.permutations(EVENTS), *itertools.permutations(f"{name}*" for name in EVENTS)):
        yield pytest.param(order, id="-".join(order), marks=() if order in USUAL else pytest.mark.thorough)


@pytest.mark.simulated
@pytest.mark.parametrize("order", list(orders()))
async def test_a_deleted_peerrelay_leaves_nothing_behind_whatever_the_order_of_events(
    cluster: World, order: Sequence[str]
) -> None:
    world, relay = cluster, peer_relay(replicas=0)
    await world.apply(relay)
    async with AsyncExitStack() as running:
        for event in order:
            with suppress(NotFound):  # the event can be about an object that is gone already
                await happen(world, relay, event.rstrip("*"), running)
            if event.endswith("*"):
                await world.settled()
        await world.eventually(lambda: world.gone(relay))
        await world.becomes(lambda: world.leftovers(relay), [])
        assert await world.device_names() == []


async def happen(world: World, relay: Object, event: str, running: AsyncExitStack) -> None:
    """Make *event*, which is one of `EVENTS`, happen to *relay*.

    The event ``operator`` starts an operator, which runs until *running* is closed.
    """
    match event:
        case "operator":
            await running.enter_async_context(running_operator(world))
        case "three" | "one":
            await world.change(relay, {"spec": {"replicas": 3 if event == "three" else 1}})
        case "lost":
            await world.delete(*await world.children(POD, relay))
        case "deleted":
            await world.delete(relay)


async def test_a_deleted_peerrelay_no_longer_shows_endpoints_but_keeps_its_address_until_its_pod_has_ended(
    world: World,
) -> None:
    relay = peer_relay()
    await world.apply(relay)
    await ready(world, relay)
    (pod,) = await world.children(POD, relay)
    await world.change(pod, {"metadata": {"finalizers": ["example.org/hold"]}})
    await world.delete(relay)
    await world.becomes(lambda: world.reason(relay, READY), "PeerRelayTerminating")
    await world.settled()
    assert await endpoints(world, relay) == []
    assert (len(await world.children(SERVICE, relay)), len(world.control.devices)) == (1, 1)
    await world.change(pod, {"metadata": {"finalizers": None}})
    await world.becomes(lambda: world.leftovers(relay), [])
    assert not world.control.devices


async def test_the_deletion_of_a_peerrelay_does_not_affect_peerrelays_with_similar_names(world: World) -> None:
    relays = [peer_relay("edge"), peer_relay("edge-0"), peer_relay("edge-0-config")]
    await world.apply(*relays)
    for relay in relays:
        await ready(world, relay)
    pods = [uid(pod) for relay in relays[1:] for pod in await world.children(POD, relay)]
    await world.delete(relays[0])
    await world.becomes(lambda: world.leftovers(relays[0]), [])
    await world.settled()
    for relay in relays[1:]:
        await ready(world, relay)
    assert pods == [uid(pod) for relay in relays[1:] for pod in await world.children(POD, relay)]


async def test_a_deleted_pod_of_a_relay_comes_back_with_its_device_and_its_address(world: World) -> None:
    relay = peer_relay()
    await world.apply(relay)
    await ready(world, relay)
    before, (pod,) = (await endpoints(world, relay), [*world.control.devices]), await world.children(POD, relay)
    await world.delete(pod)

    async def another() -> bool:
        return [uid(each) for each in await world.children(POD, relay)] not in ([], [uid(pod)])

    await world.eventually(another)
    await ready(world, relay)
    assert (await endpoints(world, relay), [*world.control.devices]) == before


@pytest.mark.simulated
async def test_the_operator_looks_up_the_hostname_of_a_relays_load_balancer(world: World) -> None:
    relay = peer_relay()
    world.balancers.show(Shown.HOSTNAME)
    await world.apply(relay)
    await ready(world, relay)
    (service,) = await world.children(SERVICE, relay)
    (entry,) = service["status"]["loadBalancer"]["ingress"]
    (address,) = world.balancers.addresses(entry["hostname"])
    assert await endpoints(world, relay) == [(0, address)]
    assert await told(world, relay) == [[f"{address}:41641"]]
    assert not await world.writes_when_left_alone()
    await world.restart()
    assert await endpoints(world, relay) == [(0, address)]


@pytest.mark.simulated
async def test_the_operator_no_longer_looks_up_the_hostnames_of_a_peerrelay_that_has_vanished(cluster: World) -> None:
    relay = peer_relay()
    cluster.balancers.show(Shown.HOSTNAME)
    async with running_operator(cluster) as operator:
        await cluster.apply(relay)
        await ready(cluster, relay)
        (service,) = await cluster.children(SERVICE, relay)
        host = service["status"]["loadBalancer"]["ingress"][0]["hostname"]

        def followed() -> bool:
            return any("HostAddresses._followed" in path for path in remembered(operator, host))

        assert followed()
        await cluster.change(relay, {"metadata": {"finalizers": None}})
        await cluster.delete(relay)
        await cluster.eventually(lambda: cluster.gone(relay))
        await cluster.settled()
        assert not followed()


@pytest.mark.simulated
async def test_a_relay_waits_for_its_load_balancer_and_learns_the_address_without_a_restart(world: World) -> None:
    relay = peer_relay()
    world.balancers.show(Shown.NOTHING)
    await world.apply(relay)
    await world.becomes(lambda: world.reason(relay, READY), "EndpointsPending")
    await world.settled()
    (pod,) = await world.children(POD, relay)
    assert await told(world, relay) == [[]]
    assert not await world.writes_when_left_alone()
    world.balancers.show(Shown.ADDRESS)
    await ready(world, relay)
    assert await told(world, relay) == [[f"{address}:41641" for address in await balanced(world, relay)]]
    assert [uid(each) for each in await world.children(POD, relay)] == [uid(pod)]


@pytest.mark.simulated
async def test_an_address_that_another_load_balancer_has_becomes_an_endpoint_when_the_address_is_free(
    world: World,
) -> None:
    first, second = peer_relay("edge"), peer_relay("gate")
    await world.apply(first)
    await ready(world, first)
    (address,) = await balanced(world, first)
    await world.apply(second)
    await ready(world, second)
    (service,) = await world.children(SERVICE, second)
    await world.api.replace_status(SERVICE, {**service, "status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
    await world.becomes(lambda: world.reason(second, READY), "EndpointsPending")
    condition = await world.condition(second, READY)
    assert condition is not None
    assert "is taken by Service tailscale/peerrelay-edge-0" in condition.message
    assert await world.reason(first, READY) == READY
    await world.settled()
    await world.delete(first)
    await ready(world, second)
    assert await endpoints(world, second) == [(0, address)]


async def test_changes_of_its_class_its_tailnet_and_its_children_cause_a_reconcile_of_a_peerrelay(
    cluster: World,
) -> None:
    cache = Cache(sources(NAMESPACE))
    proxies = Proxies(cache, cast("Any", None), cast("Any", None), settings())
    watches = peerrelays(proxies, HostAddresses()).watches
    await cluster.apply(*(peer_relay(name, tailnet=f"{name}-net", proxyClass=f"{name}-class") for name in NAMES))
    async with running(cache.follow(cluster.api)):
        await cache.synced()
    edge = [Key("", "edge")]
    for resource, name in ((TAILNET, "edge-net"), (PROXYCLASS, "edge-class")):
        assert list(watches[resource](obj(resource, Key("", name)))) == edge
    assert list(watches[ADDRESSES]({"metadata": {"name": "edge"}})) == edge
    labelled = LABELS | {"tailscale.com/parent-resource": "edge"}
    for resource in (POD, SECRET, STATEFULSET, SERVICE):
        child = obj(resource, Key(NAMESPACE, "peerrelay-edge-0"), {"spec": {}}, labels=labelled)
        assert list(watches[resource](child)) == edge


async def test_a_relay_joins_its_tailnet_and_the_tailnet_stays_as_long_as_the_relay(world: World) -> None:
    relay = peer_relay(tailnet=NAME)
    async with other_tailnet(world) as other:
        await world.apply(other.secret(), relay)
        await world.becomes(lambda: world.reason(relay, READY), "TailnetUnavailable")
        await world.apply(other.tailnet())
        await ready(world, relay)
        assert (other.device_names(), await world.device_names()) == (["relay-0.tail5678.ts.net"], [])
        await world.change(relay, {"spec": {"tailnet": None}})
        await world.becomes(lambda: world.reason(relay, READY), "TailnetUnavailable")
        await world.delete(other.tailnet())
        await world.becomes(lambda: world.reason(other.tailnet(), "TailnetReady"), "TailnetInUse")
        await world.delete(relay)
        await world.eventually(lambda: world.gone(other.tailnet()))
        assert (await world.leftovers(relay), other.device_names()) == ([], [])


def by_go(auth_key: str, server: str) -> list[Object]:
    """Return the children that the Go operator 1.102.5 makes for the PeerRelay ``relay``, with one replica."""
    name, owned = "peerrelay-relay-0", LABELS
    of_replica = {**owned, "tailscale.com/peer-relay-replica": "0"}
    config = {"Version": "alpha0", "Locked": False, "ServerURL": server, "AuthKey": auth_key, "Hostname": "relay-0"}
    config |= {"acceptDNS": False, "acceptRoutes": False, "RelayServerPort": 41641}
    service = {
        "type": "LoadBalancer",
        "selector": {"statefulset.kubernetes.io/pod-name": name},
        "ports": [{"name": "peerrelay", "protocol": "UDP", "port": 41641, "targetPort": 41641}],
    }
    container = {
        "name": "tailscaled",
        "image": IMAGE,
        "ports": [{"name": "healthz", "containerPort": 9002, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", "value": "/etc/tsconfig/$(POD_NAME)"},
            {"name": "TS_KUBE_SECRET", "value": "$(POD_NAME)"},
            {"name": "TS_ENABLE_HEALTH_CHECK", "value": "true"},
        ],
        "volumeMounts": [{"name": "tailscaledconfig-0", "mountPath": f"/etc/tsconfig/{name}", "readOnly": True}],
    }
    volumes = [{"name": "tailscaledconfig-0", "secret": {"secretName": f"{name}-config"}}]
    template = {
        "metadata": {"labels": owned},
        "spec": {"serviceAccountName": "proxies", "containers": [container], "volumes": volumes},
    }
    workload = {
        "replicas": 1,
        "serviceName": "peerrelay-relay",
        "selector": {"matchLabels": owned},
        "template": template,
    }
    files = {"cap-142.hujson": base64.b64encode(json.dumps(config).encode()).decode()}
    types = {kind: {**of_replica, "tailscale.com/secret-type": kind} for kind in ("state", "config")}
    return [
        obj(SERVICE, Key(NAMESPACE, name), {"spec": service}, labels=of_replica),
        obj(SECRET, Key(NAMESPACE, name), {"data": {}}, labels=types["state"]),
        obj(SECRET, Key(NAMESPACE, f"{name}-config"), {"data": files}, labels=types["config"]),
        obj(STATEFULSET, Key(NAMESPACE, "peerrelay-relay"), {"spec": workload}, labels=owned),
    ]


async def test_the_load_balancers_of_relays_are_not_exposed_to_the_tailnet(cluster: World) -> None:
    async with running_operator(cluster, default_load_balancer=True):
        await cluster.apply(peer_relay())
        await ready(cluster, peer_relay())
        assert await cluster.device_names() == [f"relay-0.{DOMAIN}"]


@pytest.mark.simulated
async def test_relays_that_the_go_operator_made_stay_unchanged_until_their_peerrelay_is_deleted(cluster: World) -> None:
    world, relay = cluster, peer_relay()
    key = world.control.create_key(NewKey(("tag:k8s",))).key
    await world.apply(relay)
    await world.change(relay, {"metadata": {"finalizers": ["tailscale.com/finalizer"]}})
    for child in by_go(key, world.control_url):
        made = {name: value for name, value in child["metadata"].items() if name not in ("uid", "resourceVersion")}
        await world.apply({**child, "metadata": made})
    await world.becomes(world.device_names, [f"relay-0.{DOMAIN}"])
    before = [*world.control.devices], await world.children(POD, relay), await balanced(world, relay)
    (workload,) = await world.children(STATEFULSET, relay)
    async with running_operator(world, proxy_image=IMAGE):
        await ready(world, relay)
        (after,) = await world.children(STATEFULSET, relay)
        assert after["spec"] == workload["spec"]
        assert [uid(pod) for pod in await world.children(POD, relay)] == [uid(pod) for pod in before[1]]
        assert ([*world.control.devices], await balanced(world, relay)) == (before[0], before[2])
        assert await told(world, relay) == [[f"{address}:41641" for address in before[2]]]
        assert not await world.writes_when_left_alone()
        await world.delete(relay)
        await world.becomes(lambda: world.leftovers(relay), [])
        assert not world.control.devices
