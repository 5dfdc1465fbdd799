"""Connectors: devices use them as subnet routers, exit nodes and app connectors."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE, wait_ready
from tests.e2e.testbed import control
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.management import Management, real_nodes
from tests.e2e.testbed.network import SERVICE_CIDR
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PAGE, web
from tests.support.manifests import connector

ROUTER = connector(
    "router",
    hostnamePrefix="router",
    replicas=2,
    exitNode=True,
    subnetRouter={"advertiseRoutes": [SERVICE_CIDR]},
)
APPS = connector("apps", hostname="apps", appConnector={})
LEARNED = "198.51.100.7/32"
BOTH, FIRST = [f"router-{number}.{control.DOMAIN}" for number in range(2)], [f"router-0.{control.DOMAIN}"]


@pytest.fixture(scope="module")
def connected(cluster: Cluster, outside: Peer) -> Iterator[Cluster]:
    """A cluster with a subnet router of two replicas, which are also exit nodes, and an app connector."""
    cluster.apply(ROUTER, APPS)
    outside.tailscale("set", "--accept-routes")
    yield cluster
    outside.tailscale("set", "--accept-routes=false")
    for obj in (ROUTER, APPS):
        cluster.delete("connector", obj["metadata"]["name"])
    for obj in (ROUTER, APPS):
        cluster.remove(obj)


def shown(cluster: Cluster, obj: Object) -> list[str]:
    """Return the names of the devices in a Connector's status."""
    return [device["hostname"] for device in cluster.look(obj).get("status", {}).get("devices") or ()]


def routers(outside: Peer) -> dict[str, dict[str, Any]]:
    """Return the devices of the Connector `ROUTER`, as *outside* sees them, by name."""
    peers = (outside.status().get("Peer") or {}).values()
    return {peer["DNSName"].removesuffix("."): peer for peer in peers if peer["DNSName"].startswith("router-")}


def test_a_device_reaches_the_cluster_ip_of_a_service_through_a_connector(
    connected: Cluster, outside: Peer, namespace: str
) -> None:
    pod, service = web(namespace, "web")
    connected.apply(pod, service)
    address = connected.look(service)["spec"]["clusterIP"]
    eventually(lambda: outside.curl(f"http://{address}/", timeout=3).strip() == PAGE, f"the page of {address}")


def test_devices_can_use_each_replica_of_a_connector_as_an_exit_node(connected: Cluster, outside: Peer) -> None:
    def offered() -> list[str]:
        return sorted(name for name, peer in routers(outside).items() if peer["ExitNodeOption"])

    eventually(lambda: offered() == BOTH, f"{BOTH} as exit nodes")


def test_an_app_connector_reports_its_role_to_the_control_server(connected: Cluster, bed: Bed) -> None:
    name = f"apps.{control.DOMAIN}"
    eventually(lambda: shown(connected, APPS) == [name], f"{name} in the status")
    assert connected.look(APPS)["status"]["isAppConnector"]

    def tells() -> bool:
        nodes = {node["Name"]: node for node in real_nodes(bed.machines["wan"])}
        return bool(nodes[f"{name}."]["Hostinfo"].get("AppConnector"))

    eventually(tells, f"{name} to be an app connector")


@pytest.mark.full
def test_an_app_connector_keeps_the_routes_that_it_has_learned(connected: Cluster, bed: Bed) -> None:
    pod = connected.device_proxy(APPS)
    # The bed has no application. So the test adds a route to the preferences, as tailscaled does with learned routes.
    connected.run_in(pod, "tailscale", "--socket=/tmp/tailscaled.sock", "set", f"--advertise-routes={LEARNED}")

    def offered(name: str) -> list[str]:
        nodes = {node["Name"]: node for node in real_nodes(bed.machines["wan"])}
        return (nodes.get(f"{name}.{control.DOMAIN}.") or {}).get("Hostinfo", {}).get("RoutableIPs") or []

    eventually(lambda: offered("apps") == [LEARNED], f"{LEARNED} of the app connector")
    bed.kubectl("-n", NAMESPACE, "rollout", "restart", "deployment/operator")
    wait_ready(bed)
    connected.patch(APPS, {"spec": {"hostname": "learned"}})  # tailscaled reads its config again
    eventually(lambda: offered("learned") == [LEARNED], f"{LEARNED} under the new name")
    connected.patch(APPS, {"spec": {"hostname": "apps"}})
    eventually(lambda: offered("apps") == [LEARNED], f"{LEARNED} under the old name")


@pytest.mark.full
def test_a_removed_replica_of_a_connector_leaves_no_device_and_its_route_still_works(
    connected: Cluster, outside: Peer, management: Management, namespace: str
) -> None:
    pod, service = web(namespace, "web")
    connected.apply(pod, service)
    eventually(lambda: shown(connected, ROUTER) == BOTH, f"{BOTH} in the status")
    connected.patch(ROUTER, {"spec": {"replicas": 1}})
    eventually(lambda: management.device("router-1") is None, "router-1 is gone from the tailnet")
    eventually(lambda: shown(connected, ROUTER) == FIRST, f"{FIRST} in the status")
    assert len(connected.children(ROUTER, "secrets")) == 1
    address = connected.look(service)["spec"]["clusterIP"]
    eventually(lambda: outside.curl(f"http://{address}/", timeout=3).strip() == PAGE, f"the page of {address}")
