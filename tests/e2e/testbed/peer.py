"""A device on a machine outside the cluster: the destination of egress Services, and a client of exposed Services."""

import json
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.testbed.control import ACME_ENV, FIRST, TAILSCALED_ENV, Tailnet, acme_authority
from tests.e2e.testbed.daemons import Daemons
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.parts import program
from tests.e2e.testbed.paths import Paths

WEB_PORT = 8000
GREETER_PORT = 7000  # TCP and UDP
GREETING = "hello from the peer\n"
NAMES = ("tailscaled", "web", "greeter")  # the names of its programs begin with the peer's name

PROXY = "127.0.0.1:1055"
MAGIC_DNS = "100.100.100.100"
_GREETER = Path(__file__).parent / "greeter.py"
_PATIENCE = 20.0  # seconds
_SILENCE = 1.0  # seconds
_EXCHANGE = """
import contextlib, socket, sys
address, port, request, seconds = sys.argv[1:]
answer = bytearray()
with contextlib.suppress(OSError), socket.create_connection((address, int(port)), float(seconds)) as connection:
    connection.sendall(bytes.fromhex(request))
    while part := connection.recv(65536):
        answer += part
print(answer.hex())
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A device outside the cluster. It has a tun device, so that the kernel of its machine handles its connections.

    With `--tun=userspace-networking`, tailscaled's own network stack would answer connections. That stack ignores a SYN
    from an address and a port that had a connection within the last minute. So it could ignore a proxy that was
    restarted, since that has the same address. tailscaled's SOCKS5 server on loopback resolves MagicDNS names.
    """

    name: str
    machine: Isolation
    folder: Path
    program: Path
    tailnet: Tailnet = FIRST

    @classmethod
    def at(cls, paths: Paths, machine: Isolation, folder: Path, name: str = "peer", tailnet: Tailnet = FIRST) -> "Peer":
        """Return the device called *name* of the bed with its files in *folder*. The device needn't run."""
        return cls(name, machine, folder / f"peer-{name}", program(paths, "tailscale"), tailnet)

    @property
    def fqdn(self) -> str:
        """The MagicDNS name of the device."""
        return f"{self.name}.{self.tailnet.domain}"

    @property
    def greeting(self) -> str:
        """The words with which the device's servers answer."""
        return f"hello from the {self.name}\n"

    @property
    def tailscaled(self) -> str:
        """The name of the device's tailscaled among the programs of the bed."""
        return f"{self.name}-tailscaled"

    @property
    def socket(self) -> Path:
        """The path of the socket on which the device's tailscaled accepts commands."""
        return self.folder / "tailscaled.sock"

    def tailscale(self, *arguments: str | Path, timeout: float = 60) -> str:
        """Run a `tailscale` command, and return its output. Raises BedError if the command fails."""
        return self.machine.run([self.program, f"--socket={self.socket}", *arguments], timeout=timeout)

    def status(self) -> dict[str, Any]:
        """Return the output of `tailscale status` as JSON.

        ``Self`` is the device, and ``Peer`` has its peers by node key.
        """
        found: dict[str, Any] = json.loads(self.tailscale("status", "--json"))
        return found

    def whois(self, other: "Peer") -> dict[str, Any]:
        """Return the facts that this device knows about another device: its node (``Node``) and its ``UserProfile``."""
        found: dict[str, Any] = json.loads(self.tailscale("whois", "--json", other.address))
        return found

    def capabilities(self, other: "Peer") -> dict[str, Any]:
        """Return the application capabilities that grants give *other* on this device, with their values."""
        return self.whois(other).get("CapMap") or {}

    @property
    def address(self) -> str:
        """The IPv4 address of the device in the tailnet."""
        return self.tailscale("ip", "-4").strip()

    def ask_magic_dns(self) -> None:
        """Make MagicDNS names resolve for all programs of the machine, which has an /etc of its own."""
        self.machine.run(["sh", "-c", f"echo nameserver {MAGIC_DNS} > /etc/resolv.conf"])

    def peer_api(self, name: str) -> int:
        """Return the port of the peer API of the device with the MagicDNS name *name*."""
        (other,) = [each for each in self.status()["Peer"].values() if each["DNSName"] == f"{name}."]
        return int(other["PeerAPIURL"][0].rpartition(":")[2])

    def exchange(self, address: str, port: int, request: bytes) -> bytes:
        """Send *request* to a TCP port, and return the answer until the connection ends or is silent for a second.

        Return no bytes if the connection is refused.
        """
        words = [sys.executable, "-c", _EXCHANGE, address, str(port), request.hex(), str(_SILENCE)]
        return bytes.fromhex(self.machine.run(words))

    def curl(self, *arguments: str | Path, timeout: float = 10) -> str:
        """Run curl through tailscaled's SOCKS5 server, which knows the tailnet, and return the output.

        Raises BedError if curl fails or the status is an error.
        """
        curl = ["curl", "-sS", "--fail", "--proxy", f"socks5h://{PROXY}", "--max-time", str(timeout)]
        return self.machine.run([*curl, *arguments], timeout=timeout + 5)


def start(paths: Paths, daemons: Daemons, peer: Peer, key: str) -> None:
    """Start *peer* as a new device that logs in with the auth *key*, and start its servers.

    A machine has room for only one device.

    Raises: BedError: a program does not start, or the control server refuses the key.
    """
    shutil.rmtree(peer.folder, ignore_errors=True)
    (peer.folder / "web").mkdir(parents=True)
    _start_tailscaled(paths, daemons, peer)
    _start_servers(daemons, peer)
    peer.tailscale(
        "up",
        f"--login-server={peer.tailnet.url}",
        f"--auth-key={key}",
        f"--hostname={peer.name}",
        "--accept-dns=false",  # otherwise tailscaled writes /etc/resolv.conf
        f"--timeout={_PATIENCE:.0f}s",
    )


def _start_tailscaled(paths: Paths, daemons: Daemons, peer: Peer) -> None:
    flags = [f"--statedir={peer.folder}", f"--socket={peer.socket}"]
    name = peer.tailscaled
    daemons.start(
        name,
        [program(paths, "tailscaled"), *flags, f"--socks5-server={PROXY}"],
        peer.machine,
        {**TAILSCALED_ENV, **ACME_ENV, "SSL_CERT_FILE": str(acme_authority(paths).ca)},
    )
    daemons.wait_for(name, peer.socket.is_socket, _PATIENCE, f"its socket {peer.socket}")


def _start_servers(daemons: Daemons, peer: Peer) -> None:
    """Start the device's web server and its greeter on all addresses, and wait until both answer."""
    pages = peer.folder / "web"
    (pages / "index.html").write_text(peer.greeting)
    web: list[str | Path] = [sys.executable, "-m", "http.server", "--bind", "::", "--directory", pages]
    daemons.start(f"{peer.name}-web", [*web, str(WEB_PORT)], peer.machine)
    daemons.start(f"{peer.name}-greeter", [sys.executable, _GREETER, str(GREETER_PORT), peer.greeting], peer.machine)
    for server, scheme, port in (("web", "http", WEB_PORT), ("greeter", "telnet", GREETER_PORT)):
        fetch = ["curl", "-sS", "--max-time", "5", f"{scheme}://127.0.0.1:{port}/"]
        answers = partial(_answers, peer, fetch)
        daemons.wait_for(f"{peer.name}-{server}", answers, _PATIENCE, "its greeting")


def _answers(peer: Peer, fetch: list[str]) -> bool:
    return peer.machine.run(fetch) == peer.greeting


def stop(daemons: Daemons, peer: Peer) -> None:
    """Stop the device. It stays in the tailnet until it is deleted there."""
    for what in NAMES:
        daemons.stop(f"{peer.name}-{what}")
