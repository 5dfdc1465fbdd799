"""Hostnames that are edited while the proxy runs: the device is renamed, and everything that shows its name follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cluster import Answer, Cluster, Object, dig, identity, pod_ip, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, PEER_NAME, egress_service, exposed_service, ingress, web

BEFORE = {"lb": "lb-before", "db": "db-before", "shop": "shop-before"}
AFTER = {"lb": "lb-after", "db": "db-after", "shop": "shop-after"}
OLD_SHOP, NEW_SHOP = f"{BEFORE['shop']}.{control.DOMAIN}", f"{AFTER['shop']}.{control.DOMAIN}"


class Edited(NamedTuple):
    """Proxies by their parent's name; their Pods and devices as they were before the edit."""

    parents: Mapping[str, Object]
    pods: Mapping[str, Object]
    devices: Mapping[str, str]


def device_ids(management: Management, hostnames: Mapping[str, str]) -> dict[str, str]:
    found = {name: management.device(hostname) for name, hostname in hostnames.items()}
    return {name: device["nodeId"] for name, device in found.items() if device}


@pytest.fixture(scope="module")
def edited(cluster: Cluster, nameserver: str, shared_namespace: str, management: Management) -> Edited:
    """A load balancer, an egress Service and an Ingress, whose hostnames were edited when all was settled."""
    space = shared_namespace
    objs = [
        exposed_service(space, "lb", BALANCED, hostname=BEFORE["lb"]),
        egress_service(space, "db", tailnet_fqdn=PEER_NAME, hostname=BEFORE["db"]),
        ingress(space, "shop", "web", host=BEFORE["shop"]),
    ]
    cluster.apply(*web(space, "web"), *objs)
    parents = {obj["metadata"]["name"]: obj for obj in objs}
    pods = {name: cluster.device_proxy(obj) for name, obj in parents.items()}
    eventually(lambda: len(device_ids(management, BEFORE)) == len(BEFORE), "a device for each")
    eventually(lambda: dig(cluster.bed, nameserver, OLD_SHOP).data, f"an address of {OLD_SHOP}")
    devices = device_ids(management, BEFORE)
    for name in ("lb", "db"):
        cluster.annotate(parents[name], f"tailscale.com/hostname={AFTER[name]}")
    cluster.patch(parents["shop"], {"spec": {"tls": [{"hosts": [AFTER["shop"]]}]}})
    eventually(lambda: len(device_ids(management, AFTER)) == len(AFTER), "each device with its new name")
    return Edited(parents, pods, devices)


def test_the_devices_are_the_same(edited: Edited, management: Management) -> None:
    assert device_ids(management, AFTER) == edited.devices
    assert device_ids(management, BEFORE) == {}


def test_a_device_finds_a_load_balancer_by_its_new_name(edited: Edited, cluster: Cluster, outside: Peer) -> None:
    name = f"{AFTER['lb']}.{control.DOMAIN}"
    eventually(lambda: outside.curl(f"http://{name}/").strip() == PAGE, f"the page of {name}")
    eventually(lambda: shown_hostnames(cluster.look(edited.parents["lb"])) == [name], f"{name} in the status")


def test_an_ingress_serves_its_new_name(edited: Edited, cluster: Cluster, outside: Peer, acme_root: Path) -> None:
    fetch: list[str | Path] = ["--cacert", acme_root, f"https://{NEW_SHOP}/"]
    eventually(lambda: outside.curl(*fetch).strip() == PAGE, f"the page of {NEW_SHOP}")
    eventually(lambda: shown_hostnames(cluster.look(edited.parents["shop"])) == [NEW_SHOP], f"{NEW_SHOP} in the status")


def test_the_record_has_the_new_name(edited: Edited, cluster: Cluster, nameserver: str) -> None:
    right = Answer("NOERROR", (pod_ip(edited.pods["shop"]),))
    eventually(lambda: dig(cluster.bed, nameserver, NEW_SHOP) == right, f"{NEW_SHOP} is {right}")
    eventually(lambda: dig(cluster.bed, nameserver, OLD_SHOP) == Answer("NXDOMAIN"), f"no {OLD_SHOP}")


def test_no_proxy_restarted(edited: Edited, cluster: Cluster) -> None:
    now = {name: cluster.proxy(parent) for name, parent in edited.parents.items()}
    assert {name: identity(pod) for name, pod in now.items()} == {
        name: identity(pod) for name, pod in edited.pods.items()
    }
