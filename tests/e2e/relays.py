"""Helps tests of PeerRelays: reads addresses and configs, and separates devices so that they need a relay."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tsoperator.api.names import (
    LABEL_PARENT_TYPE,
    LABEL_SECRET_TYPE,
    PARENT_PEERRELAY,
    RELAY_CONFIG_KEY,
    SECRET_TYPE_CONFIG,
)

from tests.e2e.cluster import Cluster, Object, condition
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.support.objects import texts

OF_RELAYS = {LABEL_PARENT_TYPE: PARENT_PEERRELAY}
"""The labels that select the children of all PeerRelays."""


def addresses(cluster: Cluster, relay: Object) -> list[str]:
    """Return the addresses in the status of a PeerRelay, once it is ready; none before that."""
    found = cluster.look(relay)
    is_ready = condition(found, "PeerRelayReady").get("status") == "True"
    return [each["address"] for each in found["status"]["endpoints"]] if is_ready else []


def ping(device: Peer, other: Peer) -> str:
    """Return the output of `tailscale ping` from *device* to *other*, which shows the path of the packets."""
    return device.tailscale("ping", "--until-direct=false", "--c=2", "--timeout=3s", other.address)


@contextmanager
def apart(first: Peer, second: Peer) -> Iterator[None]:
    """Keep two devices outside the cluster from sending UDP packets to each other during the block."""
    rules = [
        (device.machine, ["INPUT", "-p", "udp", "-s", _on_the_wire(other), "-j", "DROP"])
        for device, other in ((first, second), (second, first))
    ]
    for machine, rule in rules:
        machine.run(["iptables", "-I", *rule])
    try:
        yield
    finally:
        for machine, rule in rules:
            machine.run(["iptables", "-D", *rule])


def _on_the_wire(device: Peer) -> str:
    """Return the address of a device's machine in the network outside of the tailnet."""
    found = json.loads(device.machine.run(["ip", "-json", "-4", "address", "show", "eth0"]))
    return str(found[0]["addr_info"][0]["local"])


def await_configs(cluster: Cluster, server: str) -> None:
    """Wait until the Pod of every relay sees a config with the control server *server*.

    If *server* is empty, wait for configs without a control server. This shows which operator has written a config,
    because the Go operator writes no control server into it.
    """
    eventually(lambda: set(_written(cluster)) == {server}, f"configs of relays with the control server {server!r}")
    cluster.remount(NAMESPACE, OF_RELAYS)
    eventually(lambda: set(_mounted(cluster)) == {server}, f"relays with the control server {server!r}")


def _written(cluster: Cluster) -> list[str]:
    """Return the control servers in the configs in the relays' Secrets."""
    labels = {**OF_RELAYS, LABEL_SECRET_TYPE: SECRET_TYPE_CONFIG}
    return [_server(texts(secret)[RELAY_CONFIG_KEY]) for secret in cluster.listed("secrets", labels=labels)]


def _mounted(cluster: Cluster) -> list[str]:
    """Return the control servers in the configs that the relays' Pods see."""
    pods = cluster.listed("pods", labels=OF_RELAYS)
    files = {f"/etc/tsconfig/{pod['metadata']['name']}/{RELAY_CONFIG_KEY}": pod for pod in pods}
    return [_server(cluster.run_in(pod, "cat", file)) for file, pod in files.items()]


def _server(config: str) -> str:
    return str(json.loads(config).get("ServerURL", ""))
