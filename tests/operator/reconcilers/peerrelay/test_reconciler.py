"""PeerRelays on a cluster with a running operator: the tests check the state of the cluster and of the tailnet."""

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress

import pytest
from clustersim.loadbalancers import Shown
from tsoperator.api.objects import POD, SECRET, SERVICE, Object, key_of, uid
from tsoperator.kube.errors import NotFound

from tests.support.manifests import DOMAIN, peer_relay
from tests.support.objects import texts
from tests.support.operator import World, running_operator
from tests.support.othertailnet import NAME, other_tailnet

READY = "PeerRelayReady"


async def endpoints(world: World, relay: Object) -> list[tuple[int, str]]:
    """Return the endpoints in the status: the replica and the address of each."""
    found = ((await world.look(relay)).get("status") or {}).get("endpoints") or ()
    return [(each["replica"], each["address"]) for each in found]


async def told(world: World, relay: Object) -> list[list[str]]:
    """Return the endpoints that the config of each replica lists."""
    configs = [texts(each) for each in await world.children(SECRET, relay) if key_of(each).name.endswith("-config")]
    return [json.loads(each["cap-142.hujson"]).get("RelayServerStaticEndpoints", []) for each in configs]


async def balanced(world: World, relay: Object) -> list[str]:
    """Return the address of each load balancer, by the replica."""
    entries = [each["status"]["loadBalancer"]["ingress"] for each in await world.children(SERVICE, relay)]
    return [entry["ip"] for (entry,) in entries]


async def ready(world: World, relay: Object, replicas: int = 1) -> None:
    """Wait until *relay* is ready with as many *replicas*, and the operator has settled."""

    async def whole() -> bool:
        secrets = await world.children(SECRET, relay)
        pods = await world.children(POD, relay)
        complete = len(secrets) == 2 * replicas and len(pods) == replicas == len({*await endpoints(world, relay)})
        return complete and await world.reason(relay, READY) == READY

    await world.eventually(whole)
    await world.settled()


async def test_the_devices_learn_the_address_of_each_relay(world: World) -> None:
    relay = peer_relay(replicas=2)
    await world.apply(relay)
    await ready(world, relay, 2)
    found = await balanced(world, relay)
    assert await endpoints(world, relay) == list(enumerate(found))
    assert await told(world, relay) == [[f"{address}:41641"] for address in found]
    assert await world.device_names() == [f"relay-0.{DOMAIN}", f"relay-1.{DOMAIN}"]
    await world.restart()
    assert not await world.writes_when_left_alone()


async def test_replicas_come_and_go_and_leave_nothing(world: World) -> None:
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
    """Yield the orders of `EVENTS`. After an event with a star, the operator settles."""
    for order in (*USUAL, *itertools.permutations(EVENTS), *itertools.permutations(f"{name}*" for name in EVENTS)):
        yield pytest.param(order, id="-".join(order), marks=() if order in USUAL else pytest.mark.thorough)


@pytest.mark.simulated
@pytest.mark.parametrize("order", list(orders()))
async def test_a_peerrelay_leaves_nothing_in_whatever_order_things_happen(cluster: World, order: Sequence[str]) -> None:
    world, relay = cluster, peer_relay(replicas=0)
    await world.apply(relay)
    async with AsyncExitStack() as running:
        for event in order:
            with suppress(NotFound):  # nobody can change what is gone
                await happen(world, relay, event.rstrip("*"), running)
            if event.endswith("*"):
                await world.settled()
        await world.eventually(lambda: world.gone(relay))
        await world.becomes(lambda: world.leftovers(relay), [])
        assert await world.device_names() == []


async def happen(world: World, relay: Object, event: str, running: AsyncExitStack) -> None:
    """Let one of `EVENTS` happen."""
    match event:
        case "operator":
            await running.enter_async_context(running_operator(world))
        case "three" | "one":
            await world.change(relay, {"spec": {"replicas": 3 if event == "three" else 1}})
        case "lost":
            await world.delete(*await world.children(POD, relay))
        case "deleted":
            await world.delete(relay)


async def test_a_deleted_peerrelay_shows_no_endpoints_while_its_pod_ends_and_keeps_its_address_until_then(
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


async def test_a_peerrelay_leaves_those_of_others_alone(world: World) -> None:
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


async def test_a_pod_that_is_deleted_comes_back_with_its_device_and_its_address(world: World) -> None:
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
async def test_a_hostname_of_a_load_balancer_is_looked_up(world: World) -> None:
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
async def test_a_relay_waits_for_its_load_balancer_and_then_learns_its_address_while_it_runs(world: World) -> None:
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
async def test_an_address_that_another_load_balancer_has_becomes_an_endpoint_when_it_is_free(world: World) -> None:
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
    await world.delete(first)
    await ready(world, second)
    assert await endpoints(world, second) == [(0, address)]


async def test_a_relay_joins_its_tailnet_which_stays_as_long_as_the_relay(world: World) -> None:
    relay = peer_relay(tailnet=NAME)
    async with other_tailnet(world) as other:
        await world.apply(other.secret(), relay)
        await world.becomes(lambda: world.reason(relay, READY), "TailnetUnavailable")
        await world.apply(other.tailnet())
        await ready(world, relay)
        assert (other.device_names(), await world.device_names()) == (["relay-0.tail5678.ts.net"], [])
        await world.delete(other.tailnet())
        await world.becomes(lambda: world.reason(other.tailnet(), "TailnetReady"), "TailnetInUse")
        await world.delete(relay)
        await world.eventually(lambda: world.gone(other.tailnet()))
        assert (await world.leftovers(relay), other.device_names()) == ([], [])
