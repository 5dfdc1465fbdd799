"""Tailscale Services of the bed's own control server, which leads a device to one of a Service's hosts.

There are two hosts, which lead connections to their own web servers. Each web server answers with its own greeting.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import WEB_PORT, Peer
from tests.e2e.waiting import eventually

SERVED, LED, HELD = "svc:bed-served", "svc:bed-led", "svc:bed-held"
WITHIN = 20  # seconds until another host serves


def serve(host: Peer, service: str, *flags: str) -> None:
    """Make *host* serve a Tailscale Service by `tailscale serve`."""
    host.tailscale("serve", "--yes", f"--service={service}", *flags, f"http://127.0.0.1:{WEB_PORT}")


def lead(host: Peer, addresses: Sequence[str], action: str) -> None:
    """Make *host* lead packets for *addresses*, those of a Tailscale Service, to the addresses of the device *host*.

    It does so by rules like those of containerboot. *action* adds or deletes the rules.
    """
    own = host.tailscale("ip").split()
    for command, address, destination in zip(("iptables", "ip6tables"), addresses, own, strict=True):
        rule = ["--destination", address, "-j", "DNAT", "--to-destination", destination]
        host.machine.run([command, "-t", "nat", action, "PREROUTING", *rule])


@pytest.fixture(scope="module")
def hosts(bed: Bed, management: Management, neighbour: Peer) -> Iterator[tuple[Peer, Peer]]:
    """The two devices that host two Tailscale Services: one by `tailscale serve`, the other by a rule of the kernel."""
    management.put_service(SERVED, ["tcp:80", "tcp:443"])
    addresses = management.put_service(LED, ["do-not-validate"])["addrs"]
    with bed.third_peer() as third:
        for host in (neighbour, third):
            serve(host, SERVED, "--http=80")
            serve(host, SERVED, "--https=443")
            lead(host, addresses, "--append")
            host.tailscale("serve", "advertise", LED)
        yield neighbour, third
    lead(neighbour, addresses, "--delete")
    for service in (SERVED, LED):
        neighbour.tailscale("serve", "clear", service)
        management.delete_service(service)


def visit(device: Peer, service: str) -> str:
    """Return the greeting of the host to which the control server leads *device* for a Tailscale Service."""
    return device.curl(f"http://{name_of(service)}:{port(service)}/", timeout=2)


def leads_to(device: Peer, service: str, host: Peer) -> bool:
    """Tell whether connections of *device* to a Tailscale Service get to *host*."""
    return visit(device, service) == host.greeting


def port(service: str) -> int:
    """Return the port of the web server of a Tailscale Service."""
    return WEB_PORT if service == LED else 80


def name_of(service: str) -> str:
    """Return the MagicDNS name of a Tailscale Service."""
    return f"{service.removeprefix('svc:')}.{DOMAIN}"


@pytest.mark.parametrize("service", [SERVED, LED])
def test_a_device_reaches_a_tailscale_service_by_its_name_and_its_address(
    hosts: tuple[Peer, Peer], management: Management, outside: Peer, service: str
) -> None:
    greetings = [host.greeting for host in hosts]
    assert eventually(lambda: visit(outside, service), f"a greeting of {service}") in greetings
    found = management.service(service)
    assert found
    for address in found["addrs"]:
        url = f"http://[{address}]" if ":" in address else f"http://{address}"
        assert outside.curl(f"{url}:{port(service)}/", "-H", f"Host: {name_of(service)}") in greetings


@pytest.mark.usefixtures("hosts")
def test_a_host_gets_the_certificate_of_a_tailscale_service(outside: Peer, acme_root: Path) -> None:
    url = f"https://{name_of(SERVED)}/"
    eventually(lambda: outside.curl("--cacert", acme_root, url), f"a greeting at {url}")


def test_another_host_gets_the_traffic_of_a_tailscale_service_if_the_primary_host_is_killed(
    bed: Bed, hosts: tuple[Peer, Peer], outside: Peer, say: Callable[[object], None]
) -> None:
    eventually(lambda: visit(outside, LED), "a greeting")
    primary, other = hosts if leads_to(outside, LED, hosts[0]) else hosts[::-1]
    daemon = bed.daemons.get(primary.tailscaled)
    assert daemon
    daemon.process.end(grace=0)
    killed = time.monotonic()
    try:
        for service in (LED, SERVED):
            led = partial(leads_to, outside, service, other)
            eventually(led, f"{service} on {other.name}", WITHIN)
            say(f"{service} is back {time.monotonic() - killed:.1f} s after its host was killed")
    finally:
        bed.daemons.restart(primary.tailscaled, primary.machine)
        eventually(lambda: primary.status()["BackendState"] == "Running", f"{primary.name} after its restart", WITHIN)


def test_a_tailscale_service_is_reachable_at_a_host_only_once_the_host_is_approved(
    management: Management, neighbour: Peer, outside: Peer
) -> None:
    management.hold_hosts({})
    try:
        management.put_service(HELD, ["tcp:80"])
        serve(neighbour, HELD, "--http=80")
        waiting = eventually(lambda: management.hosts(HELD), "a host")
        assert [*waiting.values()] == ["not-approved"]
        with pytest.raises(BedError):
            visit(outside, HELD)
        management.approve(HELD, *waiting)
        eventually(lambda: leads_to(outside, HELD, neighbour), "its greeting")
        assert [*management.hosts(HELD).values()] == ["approved:manual"]
    finally:
        management.release_hosts()
        neighbour.tailscale("serve", "clear", HELD)
        management.delete_service(HELD)
