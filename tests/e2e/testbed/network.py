"""The machines of the bed, all on one virtual network without any other connection.

`wan` has the servers outside the cluster, and `node` has the cluster. The devices on `peer` and `peer2` are in the
first tailnet, and the device on `second` is in the second. A test can add `node2`, a second node, and `peer3`, another
device of the first tailnet.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.isolation import NETNS, Isolation

# Private addresses. After a broken connection, tailscaled would use HTTPS with a control server at a public address.
WAN = "10.255.0.1"
NODE = "10.255.0.10"
BITS = 24
BRIDGE = "wan0"

POD_CIDR = "10.244.0.0/21"  # the addresses of the Pods on all nodes
SERVICE_CIDR = "10.96.0.0/16"
LOAD_BALANCERS = tuple(f"10.255.0.{number}" for number in range(64, 80))
"""The addresses that the first node has for Services of type LoadBalancer."""

API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"

_FORWARDING = "sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1"


class Place(NamedTuple):
    """The location of a node of the cluster: its machine, its name and address, and the addresses of its Pods."""

    machine: str
    name: str
    address: str
    pods: str


FIRST_NODE = Place("node", "node1", NODE, "10.244.0.0/22")
SECOND_NODE = Place("node2", "node2", "10.255.0.11", "10.244.4.0/22")

_ON_THE_WIRE = {
    FIRST_NODE.machine: NODE,
    "peer": "10.255.0.20",
    "peer2": "10.255.0.21",
    "second": "10.255.0.30",
}
THIRD_PEER = "peer3"
_THIRD_PEER_ADDRESS = "10.255.0.22"
NAMES = ("wan", *_ON_THE_WIRE, SECOND_NODE.machine, THIRD_PEER)


def make(folder: Path) -> dict[str, Isolation]:
    """Make and connect all machines, except those that some tests add.

    Each machine has its files in its own folder in *folder*.
    """
    machines = {name: Isolation.make(name, folder / name) for name in ("wan", *_ON_THE_WIRE)}
    wan = machines["wan"]
    _configure(
        wan,
        f"ip link add {BRIDGE} type bridge",
        f"ip address add {WAN}/{BITS} dev {BRIDGE}",
        f"ip link set {BRIDGE} up",
    )
    for name, address in _ON_THE_WIRE.items():
        _connect(wan, machines[name], address)
    extra = (f"ip address add {address}/32 dev eth0" for address in LOAD_BALANCERS)
    _configure(machines[FIRST_NODE.machine], _FORWARDING, *extra)
    return machines


def make_second_node(folder: Path, machines: Mapping[str, Isolation]) -> Isolation:
    """Make the machine of the second node beside *machines*. Pods of the two nodes can reach each other."""
    made = Isolation.make(SECOND_NODE.machine, folder / SECOND_NODE.machine)
    _connect(machines["wan"], made, SECOND_NODE.address)
    _configure(made, _FORWARDING, f"ip route add {FIRST_NODE.pods} via {FIRST_NODE.address}")
    _configure(machines[FIRST_NODE.machine], f"ip route replace {SECOND_NODE.pods} via {SECOND_NODE.address}")
    return made


def make_third_peer(folder: Path, machines: Mapping[str, Isolation]) -> Isolation:
    """Make the machine of another device outside the cluster beside *machines*."""
    made = Isolation.make(THIRD_PEER, folder / THIRD_PEER)
    _connect(machines["wan"], made, _THIRD_PEER_ADDRESS)
    return made


def _connect(wan: Isolation, machine: Isolation, address: str) -> None:
    """Connect a machine to the virtual network."""
    name = machine.name
    _configure(wan, f"ip link add {name} type veth peer name eth0", f"ip link set {name} master {BRIDGE} up")
    # The other end is moved by a command outside of the isolation, because only there the target's pid is valid.
    _run_in_network(wan, f"ip link set eth0 netns {machine.first.pid}")
    _configure(
        machine,
        f"ip address add {address}/{BITS} dev eth0",
        "ip link set eth0 up",
        # The default route is needed, since tailscaled believes that a machine without one has no network.
        f"ip route add default via {WAN}",
    )


def _configure(machine: Isolation, *commands: str) -> None:
    for command in commands:
        machine.run(command.split())


def _run_in_network(machine: Isolation, command: str) -> None:
    run(["nsenter", f"--net={NETNS / machine.name}", *command.split()])
