"""The Go operator's proxies are taken over as they run: no Pod restarts, no device is new, and all of it works on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST, FINALIZER, SECRET_DEVICE_ID

from tests.e2e import product
from tests.e2e.cluster import Cluster, Object, identity, is_ready, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import GREETING, WEB_PORT, Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, PEER_NAME, connector, egress_service, exposed_service, ingress, web
from tests.operator import go_objects

LB, SHOP, GATES = "go-lb", "go-shop", ("go-gate-0", "go-gate-1")
SHOP_NAME = f"{SHOP}.{control.DOMAIN}"
GATE = connector("go-gate", hostnamePrefix="go-gate", replicas=len(GATES), exitNode=True)


class World(NamedTuple):
    """What an operator must leave as it is: Pods and StatefulSets of proxies, devices, auth keys."""

    pods: dict[str, tuple[str, int]]
    generations: dict[str, int]
    devices: dict[str, str]
    keys: int

    @classmethod
    def of(cls, cluster: Cluster, management: Management, parents: list[Object]) -> "World":
        pods = [pod for parent in parents for pod in cluster.children(parent, "pods")]
        sets = [one["metadata"] for parent in parents for one in cluster.children(parent, "statefulsets")]
        return cls(
            {pod["metadata"]["name"]: identity(pod) for pod in pods},
            {metadata["name"]: metadata["generation"] for metadata in sets},
            {device["name"]: device["nodeId"] for device in management.devices()},
            len(management.keys()),
        )


class Go:
    """Makes what the Go operator makes."""

    def __init__(self, cluster: Cluster, management: Management) -> None:
        self._cluster = cluster
        self._management = management

    def secret(self, parent: Object, hostname: str, serve_config: Object | None = None) -> Object:
        return go_objects.secret(parent, hostname, control.URL, self._management.create_key(), serve_config)

    def make(self, parent: Object, *objs: Object) -> None:
        """Apply children of *parent*, with the image that this operator has for its own."""
        self._cluster.patch(parent, {"metadata": {"finalizers": [FINALIZER]}})
        text = json.dumps([go_objects.headless(parent), *objs])
        self._cluster.apply(*json.loads(text.replace(go_objects.IMAGE, product.PROXY_IMAGE)))

    def egress(self, parent: Object) -> None:
        self.make(parent, self.secret(parent, "go-db"), go_objects.egress_statefulset(parent, PEER_NAME))

    def load_balancer(self, parent: Object) -> None:
        self.make(parent, self.secret(parent, LB), go_objects.exposed_statefulset(parent))

    def ingress(self, parent: Object, address: str) -> None:
        handlers = {"Handlers": {"/": {"Proxy": f"http://{address}:80/"}}}
        serve = {"TCP": {"443": {"HTTPS": True}}, "Web": {"${TS_CERT_DOMAIN}:443": handlers}}
        self.make(parent, self.secret(parent, SHOP, serve), go_objects.ingress_statefulset(parent))

    def connector(self, parent: Object) -> None:
        keys = [self._management.create_key() for _ in GATES]
        self.make(parent, *go_objects.exit_node(parent, control.URL, keys))


class TakenOver(NamedTuple):
    """The parents (egress, load balancer, Ingress, Connector), and the world before our operator started."""

    parents: list[Object]
    before: World


@pytest.fixture(scope="module")
def taken_over(cluster: Cluster, nameserver: str, shared_namespace: str, management: Management) -> Iterator[TakenOver]:
    """Proxies of every kind that the Go operator made, with our operator at work on them."""
    space = shared_namespace
    pod, service = web(space, "web")
    asked = [
        egress_service(space, "db", tailnet_fqdn=PEER_NAME, hostname="go-db"),
        exposed_service(space, "lb", BALANCED, hostname=LB),
        ingress(space, "shop", "web", host=SHOP),
        GATE,
    ]
    cluster.scale_operator(0)
    try:
        cluster.apply(pod, service, *asked)
        parents = [cluster.look(obj) for obj in asked]
        go = Go(cluster, management)
        go.egress(parents[0])
        go.load_balancer(parents[1])
        go.ingress(parents[2], cluster.look(service)["spec"]["clusterIP"])
        go.connector(parents[3])
        eventually(lambda: all(runs(cluster, parent) for parent in parents), "the Go operator's proxies")
        before = World.of(cluster, management, parents)
    finally:
        cluster.scale_operator(2)
    eventually(lambda: all(adopted(cluster, parent) for parent in parents), "our mark on each StatefulSet")
    yield TakenOver(parents, before)
    cluster.remove(GATE)


def runs(cluster: Cluster, parent: Object) -> bool:
    """All its Pods are ready, and have told of their devices."""
    pods, secrets = cluster.children(parent, "pods"), cluster.children(parent, "secrets")
    told = [SECRET_DEVICE_ID in secret["data"] for secret in secrets]
    return all(map(is_ready, pods)) and all(told) and len(pods) == len(told) == parent["spec"].get("replicas", 1)


def adopted(cluster: Cluster, parent: Object) -> bool:
    (statefulset,) = cluster.children(parent, "statefulsets")
    return ANNOTATION_DIGEST in statefulset["metadata"].get("annotations", {})


def test_a_pod_reaches_the_device_behind_an_egress_proxy(
    taken_over: TakenOver, cluster: Cluster, client: Object
) -> None:
    page = f"http://{PEER_NAME}:{WEB_PORT}/"
    eventually(lambda: cluster.curl(client, page) == GREETING, f"the page of {page}")


def test_a_device_reaches_a_load_balancer_whose_status_names_it(
    taken_over: TakenOver, cluster: Cluster, outside: Peer
) -> None:
    name = f"{LB}.{control.DOMAIN}"
    eventually(lambda: outside.curl(f"http://{name}/").strip() == PAGE, f"the page of {name}")
    eventually(lambda: shown_hostnames(cluster.look(taken_over.parents[1])) == [name], f"{name} in the status")


def test_a_device_reaches_an_ingress_whose_status_names_it(
    taken_over: TakenOver, cluster: Cluster, outside: Peer, acme_root: Path
) -> None:
    fetch: list[str | Path] = ["--cacert", acme_root, f"https://{SHOP_NAME}/"]
    eventually(lambda: outside.curl(*fetch).strip() == PAGE, f"the page of {SHOP_NAME}")
    eventually(
        lambda: shown_hostnames(cluster.look(taken_over.parents[2])) == [SHOP_NAME], f"{SHOP_NAME} in the status"
    )


def test_a_connectors_status_names_its_devices(taken_over: TakenOver, cluster: Cluster) -> None:
    names = [f"{gate}.{control.DOMAIN}" for gate in GATES]

    def shown() -> list[str]:
        return [device["hostname"] for device in cluster.look(GATE)["status"]["devices"]]

    eventually(lambda: shown() == names, f"{names} in the status")


def test_no_pod_restarts_and_no_device_is_new(taken_over: TakenOver, cluster: Cluster, management: Management) -> None:
    assert World.of(cluster, management, taken_over.parents) == taken_over.before
    assert len(taken_over.before.pods) == 3 + len(GATES)
