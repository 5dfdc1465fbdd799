"""PeerRelays: devices that can't reach each other directly do so through a relay in the cluster."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.relays import addresses, apart, ping
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.network import LOAD_BALANCERS
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.support.manifests import peer_relay

RELAY = peer_relay("edge")


@pytest.fixture
def relayed(cluster: Cluster) -> Iterator[str]:
    """The address in the status of a PeerRelay that runs in the cluster."""
    cluster.apply(RELAY)
    (address,) = eventually(lambda: addresses(cluster, RELAY), "the address of a relay")
    assert address in LOAD_BALANCERS
    yield address
    cluster.remove(RELAY)


@pytest.fixture
def blocked(outside: Peer, neighbour: Peer) -> Iterator[None]:
    """Two devices outside the cluster that can't send UDP packets to each other."""
    with apart(outside, neighbour):
        yield


@pytest.mark.usefixtures("blocked")
def test_devices_that_cannot_reach_each_other_use_the_peer_relay_also_after_its_pod_was_replaced(
    cluster: Cluster, relayed: str, outside: Peer, neighbour: Peer
) -> None:
    by_relay = f"via peer-relay({relayed}:41641"
    eventually(lambda: by_relay in ping(outside, neighbour), f"a pong {by_relay}")
    pod = cluster.proxy(RELAY)
    cluster.delete("pod", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def replaced() -> bool:
        return bool(cluster.proxy(RELAY)["metadata"]["uid"] != pod["metadata"]["uid"])

    eventually(replaced, "another Pod of the relay")
    eventually(lambda: by_relay in ping(outside, neighbour), f"a pong {by_relay} again")
    assert addresses(cluster, RELAY) == [relayed]


def test_each_replica_of_a_peer_relay_has_an_address_and_a_device_until_the_replica_is_removed(
    cluster: Cluster, management: Management
) -> None:
    def devices() -> list[str]:
        found = (each["name"].partition(".")[0] for each in management.devices())
        return sorted(name for name in found if name.startswith("edge-"))

    cluster.apply({**RELAY, "spec": {"replicas": 0}})
    for replicas in (3, 1):
        cluster.patch(RELAY, {"spec": {"replicas": replicas}})
        eventually(lambda count=replicas: len(addresses(cluster, RELAY)) == count, f"{replicas} addresses")  # type: ignore[misc]
        names = [f"edge-{number}" for number in range(replicas)]
        eventually(lambda wanted=names: devices() == wanted, f"the devices {names}")  # type: ignore[misc]
        services = [f"peerrelay-{name}" for name in names]

        def there() -> list[str]:
            return sorted(each["metadata"]["name"] for each in cluster.children(RELAY, "services"))

        eventually(lambda wanted=services: there() == wanted, f"the Services {services}")  # type: ignore[misc]
    cluster.remove(RELAY)
    eventually(lambda: devices() == [], "no device")
