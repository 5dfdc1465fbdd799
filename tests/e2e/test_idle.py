"""Ten minutes in which nobody changes anything: the operator writes nothing but its Lease."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from operatorbench.audit import AuditLog

from tests.e2e.cluster import Cluster
from tests.e2e.groups import await_group, await_served
from tests.e2e.hosting import await_shown
from tests.e2e.product import OPERATOR_USER
from tests.e2e.testbed.processes import wait_until
from tests.e2e.waiting import eventually
from tests.e2e.workloads import (
    BALANCED,
    PEER_NAME,
    egress_service,
    exposed_service,
    group_service,
    ingress,
    proxy_group,
    web,
)
from tests.support.manifests import connector

# The mark `thorough` keeps this test out of CI's shares of `full`: it would double the time of a share.
pytestmark = [pytest.mark.full, pytest.mark.thorough]

IDLE = 600.0  # seconds
QUIET = 20.0  # seconds without a write, after which the operator has settled
GROUP, EXPOSING = proxy_group("still", replicas=2), proxy_group("bright", type="ingress", replicas=2)
ROUTER = connector("quiet", hostname="quiet", exitNode=True)


@pytest.fixture
def settled(cluster: Cluster, nameserver: str, namespace: str) -> Iterator[None]:
    """A cluster with objects of many kinds, all of which work: groups, Services, an Ingress and a Connector."""
    served = group_service(namespace, "db", "still", tailnet_fqdn=PEER_NAME)
    own = egress_service(namespace, "printer", tailnet_ip="100.64.0.1")
    balanced = exposed_service(namespace, "lb", BALANCED, proxy_group="bright", hostname="bright-lb")
    shop = ingress(namespace, "shop", "bright-shop", proxy_group="bright")
    cluster.apply(GROUP, EXPOSING, ROUTER, served, own, *web(namespace, "web"), balanced, shop)
    for group in (GROUP, EXPOSING):
        await_group(cluster, group, 2)
    await_served(cluster, served)
    await_shown(cluster, balanced, "bright-lb")
    await_shown(cluster, shop, "bright-shop")
    for parent in (own, ROUTER):
        cluster.device_proxy(parent)
    eventually(lambda: not written(cluster, QUIET), "the operator to have nothing left to write")
    yield
    for kind in ("services", "ingresses"):
        cluster.bed.kubectl("-n", namespace, "delete", kind, "--all", "--timeout=90s", timeout=100)
    for obj in (GROUP, EXPOSING, ROUTER):
        cluster.remove(obj)


@pytest.mark.timeout(IDLE + 120, func_only=True)
def test_an_idle_operator_writes_nothing_but_its_lease(cluster: Cluster, settled: None) -> None:
    assert written(cluster, IDLE) == Counter()


def written(cluster: Cluster, seconds: float) -> Counter[tuple[str, str]]:
    """Return the numbers of the operator's writes, except those to Leases, by verb and plural.

    Count them for *seconds*, or until the first such write.
    """
    with closing(AuditLog(cluster.bed.plane.audit_log, OPERATOR_USER)) as log:

        def others() -> Counter[tuple[str, str]]:
            return Counter({what: count for what, count in log.writes().items() if what[1] != "leases"})

        wait_until(lambda: bool(others()), seconds)
        return others()
