"""A Service and an Ingress move from their own proxies to a group and back, and their users hardly notice."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.cluster import Cluster, Object, shown_hostnames
from tests.e2e.groups import await_group, devices
from tests.e2e.hosting import certificates, dns_name
from tests.e2e.load import Load
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, ingress, proxy_group, web

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

GROUP = proxy_group("stage", type="ingress", replicas=2)
GAP = 15.0  # seconds in which connections may fail during a move: a device keeps its name until it is gone
AFTERWARDS = 10.0  # seconds that the load goes on for

LABEL = "actor"


@pytest.fixture(scope="module")
def group(cluster: Cluster) -> Iterator[str]:
    """A group of two proxies."""
    cluster.apply(GROUP)
    await_group(cluster, GROUP, 2)
    yield "stage"
    cluster.remove(GROUP)


@pytest.fixture(params=["http", "https"])
def moving(cluster: Cluster, group: str, namespace: str, request: pytest.FixtureRequest) -> Object:
    """A Service or an Ingress with its own proxy."""
    service = exposed_service(namespace, "lb", BALANCED, hostname=LABEL)
    obj = service if request.param == "http" else ingress(namespace, "shop", LABEL)
    cluster.apply(*web(namespace, "web"), obj)
    cluster.device_proxy(obj)
    return obj


@pytest.fixture
def load(moving: Object, outside: Peer) -> Iterator[Load]:
    """The `Load` with which a device opens connections to the object by its name."""
    target = f"http://{dns_name(LABEL)}:80" if moving["kind"] == "Service" else f"https://{dns_name(LABEL)}:443"
    with Load.from_device(outside, f"{PAGE}\n", [target], 10) as load:
        yield load


def test_an_object_that_moves_between_a_group_and_its_own_proxy_leaves_nothing_at_its_old_place(
    cluster: Cluster, group: str, moving: Object, load: Load, management: Management, say: Callable[[object], None]
) -> None:
    seconds = []
    for place in (group, ""):
        began = time.time()
        cluster.annotate(moving, f"tailscale.com/proxy-group{f'={place}' if place else '-'}")
        await_place(cluster, moving, place, management)
        took = time.time() - began
        eventually(lambda: load.seen()[-1].at > began + took + AFTERWARDS, "load for a while")  # noqa: B023
        outcome = load.since(began)
        seconds.append(outcome.seconds)
        say(f"{moving['kind']} to {place or 'its own proxy'} in {took:.1f} s: {outcome}")
    assert max(seconds) <= GAP, seconds


def await_place(cluster: Cluster, moving: Object, place: str, management: Management) -> None:
    """Wait until the group *place*, or an own proxy if *place* is "", exposes the object *moving*.

    Also wait until nothing remains of the way in which the object was exposed before.
    """

    def here() -> bool:
        assert shown_hostnames(cluster.look(moving)) == [dns_name(LABEL)], cluster.look(moving)["status"]
        children = cluster.children(moving, "statefulsets,secrets,pods,services")
        own = {obj["metadata"]["name"] for obj in children} - {dns_name(LABEL)}  # the Secret of the certificate
        assert bool(own) is not bool(place), own
        assert devices(management, LABEL) == ([] if place else [LABEL]), devices(management, LABEL)
        services = [each["name"] for each in management.services()]
        assert (f"svc:{LABEL}" in services) is bool(place), services
        expected = [dns_name(LABEL)] * 3 if place and moving["kind"] == "Ingress" else []
        assert certificates(cluster) == expected, certificates(cluster)
        return True

    eventually(here, f"{LABEL} at {place or 'its own proxy'} alone", 120)
