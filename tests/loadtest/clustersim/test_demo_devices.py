from base64 import b64encode
from typing import Any, NamedTuple

import pytest
from clustersim.apiclient import ApiClient
from clustersim.demo_checks import NotYet, Reached
from clustersim.demo_devices import Shown, devices_of
from clustersim.objects import CONNECTOR, PEERRELAY, SECRET, SERVICE, Object
from clustersim.sim import ClusterSim

ORDERS = Shown(SERVICE, "default", "orders")
NET = Shown(CONNECTOR, "", "net")
EDGE = Shown(PEERRELAY, "", "edge")
READY = {ORDERS: "TailscaleProxyReady", NET: "ConnectorReady", EDGE: "PeerRelayReady"}
PORTS: Object = {
    "type": "LoadBalancer",
    "ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
}
TAILNET: dict[str, Object] = {
    f"n{number}": {"name": f"net-{number}.example.org", "addresses": [f"100.64.0.{number}"], "advertisedRoutes": []}
    for number in (0, 1)
}
NAMED = "net-0.example.org"
STATED = {"hostname": NAMED, "tailnetIPs": ["100.64.0.0"]}


def routed(*routes: str) -> dict[str, Object]:
    return {"n0": {**TAILNET["n0"], "advertisedRoutes": [*routes]}}


def balanced(*entries: Object) -> Object:
    return {"loadBalancer": {"ingress": [*entries]}}


class Case(NamedTuple):
    target: Shown
    spec: Object
    status: Object | None = None
    tailnet: dict[str, Object] = TAILNET
    ready: str = "True"


async def looked(sim: ClusterSim, case: Case) -> list[Reached]:
    """Return the devices that the demo shows for an object with the spec and the status of *case*.

    The object has a Secret for each of its devices.
    """
    target = case.target
    metadata = {"name": target.name, **({"namespace": target.namespace} if target.namespace else {})}
    condition = {"type": READY[target], "status": case.ready}
    sim.store.create(target.resource, {"metadata": metadata, "spec": case.spec})
    status = {"status": {**(case.status or {}), "conditions": [condition]}}
    sim.store.merge(target.resource, target.namespace, target.name, status, "status")
    for node_id in case.tailnet:
        secret: Any = {"name": f"ts-{node_id}", "namespace": "tailscale", "labels": target.labels}
        sim.store.create(SECRET, {"metadata": secret, "data": {"device_id": b64encode(node_id.encode()).decode()}})
    async with ApiClient(sim.api_url) as api:
        return await devices_of(target, api, case.tailnet)


@pytest.mark.parametrize(
    ("case", "offers"),
    [
        (Case(ORDERS, PORTS, balanced({"hostname": NAMED}, {"ip": "100.64.0.0"}), routed()), ["port 80/TCP, 53/UDP"]),
        (Case(ORDERS, PORTS, balanced({"hostname": NAMED}), routed()), ["port 80/TCP, 53/UDP"]),
        (Case(ORDERS, {}, tailnet=routed()), ["every port"]),
        (Case(NET, {}, {"devices": [STATED]}, routed("192.0.2.0/24")), ["route 192.0.2.0/24"]),
        (Case(NET, {}, {"devices": [STATED]}, routed("0.0.0.0/0", "::/0")), ["exit node"]),
        (Case(NET, {"replicas": 2}), ["app connector"] * 2),
        (Case(EDGE, {"replicas": 2}), ["relay"] * 2),
    ],
)
async def test_the_demo_shows_the_purpose_of_each_device(sim: ClusterSim, case: Case, offers: list[str]) -> None:
    numbers = range(len(offers))
    expected = [Reached(f"net-{n}.example.org", (f"100.64.0.{n}",), offers[n]) for n in numbers]
    assert await looked(sim, case) == expected


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(ORDERS, PORTS, tailnet=routed(), ready="False"), "its condition TailscaleProxyReady is not True"),
        (Case(NET, {}, ready="False"), "its condition ConnectorReady is not True"),
        (Case(NET, {"replicas": 3}), "the tailnet lists 2 of its 3 devices"),
        (Case(ORDERS, PORTS, tailnet={}), "the tailnet lists 0 of its 1 devices"),
        (Case(ORDERS, PORTS, balanced({"hostname": "other.example.org"}), routed()), "its status shows .*other"),
        (Case(NET, {}, {"devices": [{**STATED, "tailnetIPs": ["192.0.2.1"]}]}, routed()), r"shows .*192\.0\.2\.1"),
    ],
)
async def test_the_demo_reports_a_device_that_is_not_ready_or_whose_data_differ_from_the_tailnet(
    sim: ClusterSim, case: Case, words: str
) -> None:
    with pytest.raises(NotYet, match=words):
        await looked(sim, case)
