"""A ProxyGroup of type egress: Pods reach devices through it, even while its proxies restart."""

import time
from collections.abc import Callable, Iterator

import pytest
from tsoperator.api.objects import key_of
from tsoperator.group.egress import entry_name

from tests.e2e.cluster import Answer, Cluster, Object, dig
from tests.e2e.groups import await_group, await_served, devices, entries, serving
from tests.e2e.load import Load
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, group_service, proxy_group, targets

FLEET = proxy_group("fleet", replicas=2)
KILLED = 5.0  # seconds in which connections may fail after a Pod was killed
AFTERWARDS = 6.0  # seconds that the load goes on for
SWARM = 8  # groups that are deleted together
TOGETHER = 60.0  # seconds until all of them are gone
ROUNDS = 5

Say = Callable[[object], None]


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[Object]:
    """A group of two proxies."""
    cluster.apply(FLEET)
    await_group(cluster, FLEET, 2)
    yield FLEET
    cluster.remove(FLEET)


@pytest.fixture(scope="module")
def served(cluster: Cluster, nameserver: str, fleet: Object, shared_namespace: str) -> Object:
    """A Service that both proxies serve, once the nameserver has its record."""
    service = group_service(shared_namespace, "db", fleet["metadata"]["name"], tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    await_served(cluster, service)
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME).data, f"an address of {PEER_NAME}")
    return service


@pytest.fixture
def load(cluster: Cluster, served: Object, outside: Peer) -> Iterator[Load]:
    """The `Load` with which a Pod opens connections to each port of the device.

    The connections go to the Service's name and to the MagicDNS name, in turn.
    """
    with Load.on(cluster, served["metadata"]["namespace"], outside.greeting, targets(served, PEER_NAME)) as load:
        yield load


def go_on(load: Load) -> None:
    """Let the load continue for as long as a change can have effects, and then stop it."""
    until = time.time() + AFTERWARDS
    eventually(lambda: load.seen()[-1].at > until, "load for a while")
    load.end()


def test_a_pod_reaches_a_device_through_an_egress_group_by_the_names_of_the_service_and_the_device(
    load: Load, say: Say
) -> None:
    began = time.time()
    go_on(load)
    say(f"a group of 2: {load.since(began)}")
    assert load.since(began).failed == []


def test_the_name_of_a_device_behind_an_egress_group_resolves_to_the_clusterip_service(
    cluster: Cluster, served: Object, nameserver: str
) -> None:
    (service,) = cluster.children(served, "services")
    assert dig(cluster.bed, nameserver, PEER_NAME) == Answer("NOERROR", tuple(service["spec"]["clusterIPs"]))


def test_connections_fail_only_for_a_moment_when_a_pod_of_an_egress_group_is_killed(
    cluster: Cluster, fleet: Object, served: Object, load: Load, say: Say
) -> None:
    began = time.time()
    cluster.bed.kubectl("-n", NAMESPACE, "delete", "pod", "fleet-1", "--grace-period=0", "--force")
    await_group(cluster, fleet, 2)
    await_served(cluster, served)
    go_on(load)
    say(f"a Pod killed: {load.since(began)}")
    assert load.since(began).seconds <= KILLED


@pytest.mark.full
@pytest.mark.timeout(600, func_only=True)
def test_no_connection_fails_while_an_egress_group_is_restarted(
    cluster: Cluster, fleet: Object, served: Object, load: Load, say: Say
) -> None:
    old, began = {uid(pod) for pod in cluster.children(fleet, "pods")}, time.time()
    cluster.bed.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/fleet")
    new = {uid(pod) for pod in await_group(cluster, fleet, 2, 300)}
    took = time.time() - began
    await_served(cluster, served)
    go_on(load)
    say(f"rollout restart of 2 in {took:.0f} s: {load.since(began)}")
    assert not old & new
    assert load.since(began).failed == []


@pytest.mark.full
@pytest.mark.timeout(900, func_only=True)
def test_no_connection_fails_while_an_egress_group_is_scaled_up_and_down(
    cluster: Cluster, fleet: Object, served: Object, load: Load, management: Management, say: Say
) -> None:
    for replicas in (3, 1, 2):
        began = time.time()
        cluster.patch(fleet, {"spec": {"replicas": replicas}})
        await_group(cluster, fleet, replicas, 300)
        await_served(cluster, served)
        say(f"scaled to {replicas} in {time.time() - began:.0f} s: {load.since(began)}")
        await_devices(management, replicas)
    go_on(load)
    assert load.since(0).failed == []


def await_devices(management: Management, count: int) -> None:
    """Wait until the first *count* proxies have devices in the tailnet, and the others have none."""
    names = [f"fleet-{number}" for number in range(count)]
    eventually(lambda: devices(management, "fleet-") == names, f"devices {names}")


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def test_a_deleted_egress_service_leaves_nothing_in_its_group(cluster: Cluster, fleet: Object, served: Object) -> None:
    name = fleet["metadata"]["name"]
    assert entries(cluster, name) == [entry_name(key_of(served))]
    cluster.remove(served)
    assert (entries(cluster, name), serving(cluster, served)) == ([], [])


def test_a_deleted_egress_group_leaves_no_device(cluster: Cluster, fleet: Object, management: Management) -> None:
    await_devices(management, 2)
    cluster.remove(fleet)
    await_devices(management, 0)


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("_round", [pytest.param(n, marks=pytest.mark.full(share=n)) for n in range(1, ROUNDS + 1)])
def test_proxygroups_that_are_deleted_together_are_gone_within_a_minute(
    cluster: Cluster, outside: Peer, management: Management, namespace: str, say: Say, _round: int
) -> None:
    groups = [proxy_group(f"swarm{number}", replicas=2) for number in range(SWARM)]
    ways = ({"tailnet_fqdn": outside.fqdn}, {"tailnet_ip": outside.address})
    names = [group["metadata"]["name"] for group in groups]
    services = [group_service(namespace, f"{n}-{i}", n, **ways[i]) for n in names for i in range(len(ways))]
    cluster.apply(*groups, *services)
    for group in groups:
        await_group(cluster, group, 2)
    for service in services:
        await_served(cluster, service)
    began = time.time()
    cluster.bed.kubectl("delete", "proxygroups", *names, "--wait=false")
    cluster.bed.kubectl("-n", namespace, "delete", "services", "--all", "--wait=false")
    eventually(lambda: not left(cluster, management, namespace), "all gone", TOGETHER)
    say(f"{SWARM} groups gone in {time.time() - began:.0f} s")


def left(cluster: Cluster, management: Management, namespace: str) -> list[str]:
    """Return the remaining objects and devices of the groups that are deleted together, and of their Services."""
    named = [*cluster.listed("proxygroups", ""), *cluster.listed("statefulsets,pods,secrets,configmaps")]
    objs = [obj for obj in named if obj["metadata"]["name"].startswith("swarm")]
    found = [f"{obj['kind']} {obj['metadata']['name']}" for obj in [*objs, *cluster.listed("services", namespace)]]
    assert not found, found
    return devices(management, "swarm")
