"""Machines on one wire that leads nowhere: `wan` (the wire), `node` (the cluster), and two for devices outside.

The device on `peer` is in the first tailnet, that on `second` in the second.
"""

from pathlib import Path

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.isolation import NETNS, Isolation

# Private: tailscaled calls a control server elsewhere by HTTPS as soon as a connection breaks.
WAN = "10.255.0.1"
NODE = "10.255.0.10"
PEER = "10.255.0.20"
SECOND = "10.255.0.30"
BITS = 24
BRIDGE = "wan0"
NAMES = ("wan", "node", "peer", "second")

POD_CIDR = "10.244.0.0/22"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"


def make(folder: Path) -> dict[str, Isolation]:
    """Make them and connect them; their files go into folders of *folder*."""
    machines = {name: Isolation.make(name, folder / name) for name in NAMES}
    wan = machines["wan"]
    _configure(
        wan,
        f"ip link add {BRIDGE} type bridge",
        f"ip address add {WAN}/{BITS} dev {BRIDGE}",
        f"ip link set {BRIDGE} up",
    )
    for name, address in (("node", NODE), ("peer", PEER), ("second", SECOND)):
        target = machines[name].first.pid
        _configure(wan, f"ip link add {name} type veth peer name eth0", f"ip link set {name} master {BRIDGE} up")
        # The other end is moved from outside, where the target's pid means something.
        _run_in_network(wan, f"ip link set eth0 netns {target}")
        _configure(
            machines[name],
            f"ip address add {address}/{BITS} dev eth0",
            "ip link set eth0 up",
            # tailscaled takes a machine without a default route for one without a network.
            f"ip route add default via {WAN}",
        )
    _configure(machines["node"], "sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1")
    return machines


def _configure(machine: Isolation, *commands: str) -> None:
    for command in commands:
        machine.run(command.split())


def _run_in_network(machine: Isolation, command: str) -> None:
    run(["nsenter", f"--net={NETNS / machine.name}", *command.split()])
