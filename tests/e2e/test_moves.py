"""A Service moves from its own proxy to a group, to another group and back, and its users hardly notice."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from tsoperator.api.objects import key_of
from tsoperator.group.egress import entry_name

from tests.e2e.cluster import Cluster, Object
from tests.e2e.groups import await_group, await_served, devices, entries, serving
from tests.e2e.load import Load
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, group_service, proxy_group, targets

pytestmark = pytest.mark.full

GROUPS = [proxy_group(name, replicas=1) for name in ("from-here", "to-there")]
FIRST, OTHER = (group["metadata"]["name"] for group in GROUPS)
OWN = ""  # the place of a Service with its own proxy
MOVES = [OWN, FIRST, OTHER, OWN]
MOVED = 2.0  # seconds in which connections may fail during a move
AFTERWARDS = 10.0  # seconds until clients with an old address in their cache ask for the new one


@pytest.fixture(scope="module")
def groups(cluster: Cluster) -> Iterator[None]:
    """Two groups of one proxy each."""
    cluster.apply(*GROUPS)
    for group in GROUPS:
        await_group(cluster, group, 1)
    yield
    for group in GROUPS:
        cluster.remove(group)


@pytest.fixture
def moving(cluster: Cluster, nameserver: str, groups: None, namespace: str) -> Object:
    """A Service with its own proxy."""
    service = group_service(namespace, "db", OWN, tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    cluster.device_proxy(service)
    return service


@pytest.mark.timeout(600, func_only=True)
def test_an_egress_service_that_moves_between_groups_and_its_own_proxy_leaves_nothing_behind(
    cluster: Cluster,
    moving: Object,
    management: Management,
    outside: Peer,
    say: Callable[[object], None],
) -> None:
    seconds = []
    with Load.on(cluster, moving["metadata"]["namespace"], outside.greeting, targets(moving, PEER_NAME)) as load:
        for old, new in pairwise(MOVES):
            began = time.time()
            cluster.annotate(moving, f"tailscale.com/proxy-group{f'={new}' if new else '-'}")
            await_place(cluster, moving, new, management)
            took = time.time() - began
            eventually(lambda: load.seen()[-1].at > began + took + AFTERWARDS, "load for a while")  # noqa: B023
            outcome = load.since(began)
            seconds.append(outcome.seconds)
            say(f"from {old or 'its own proxy'} to {new or 'its own proxy'} in {took:.1f} s: {outcome}")
    assert max(seconds) <= MOVED, seconds


def await_place(cluster: Cluster, service: Object, place: str, management: Management) -> None:
    """Wait until the group *place*, or the Service's own proxy if *place* is "", serves the Service.

    Also wait until no object and no device remains of the way in which the Service was served before.
    """
    if place == OWN:
        cluster.device_proxy(service)
    else:
        await_served(cluster, service)
    own = f"{service['metadata']['namespace']}-{service['metadata']['name']}"

    def here() -> bool:
        name = entry_name(key_of(service))
        where = {group: entries(cluster, group) for group in (FIRST, OTHER)}
        assert where == {group: [name] if group == place else [] for group in where}, where
        assert set(serving(cluster, service)) == {place}, serving(cluster, service)
        left = [obj["metadata"]["name"] for obj in cluster.children(service, "statefulsets,secrets,pods")]
        assert bool(left) is (place == OWN), left
        assert devices(management, own) == ([own] if place == OWN else []), devices(management, own)
        return True

    eventually(here, f"{service['metadata']['name']} at {place or 'its own proxy'} alone", 60)
