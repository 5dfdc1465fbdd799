"""Tests of the Tailscale Services of a simulated tailnet, especially of the choice of the primary host."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from clustersim.tailnet import Device, Tailnet
from clustersim.tailnetservices import Host, TailscaleService, TailscaleServices

from tests.loadtest.clustersim.running import new_key

PORTS = ("tcp:443", "tcp:80")
WEB = TailscaleService("svc:web", PORTS, ("tag:web",))
SERVING = Host(ports=frozenset(PORTS), backends=("http://10.0.0.1:8080/",))
HALF = replace(SERVING, ports=frozenset(PORTS[:1]))


class Hosted(NamedTuple):
    """A tailnet with a Tailscale Service and two devices that host it. *first* is the primary host."""

    tailnet: Tailnet
    first: Device
    second: Device

    @property
    def services(self) -> TailscaleServices:
        return self.tailnet.services

    @property
    def primary(self) -> str:
        """The hostname of the primary host."""
        node_id = self.services.primary("svc:web")
        return self.tailnet.devices[node_id].hostname if node_id else ""

    def report(self, *hosts: Host) -> None:
        for device, host in zip((self.first, self.second), hosts, strict=False):
            self.services.report(device.node_id, {"svc:web": host})


def hosted(*hosts: Host, service: TailscaleService = WEB) -> Hosted:
    tailnet = Tailnet()
    devices = [tailnet.register(new_key(tailnet), name) for name in ("first", "second")]
    ground = Hosted(tailnet, *devices)
    tailnet.services.put(service)
    ground.report(*hosts)
    return ground


def retag(ground: Hosted, tag: str) -> None:
    ground.tailnet.update(replace(ground.tailnet.devices[ground.first.node_id], tags=(tag,)))


def report_in_vain(ground: Hosted) -> None:
    with pytest.raises(KeyError):
        ground.report(SERVING)


def approve_by_tag(ground: Hosted, *tags: str) -> None:
    ground.services.approvers = {"tag:web": tags}


@pytest.mark.parametrize(
    ("break_", "heal"),
    [
        (
            lambda it: it.tailnet.set_connected(it.first.node_id, False),
            lambda it: it.tailnet.set_connected(it.first.node_id, True),
        ),
        (lambda it: it.report(replace(SERVING, advertises=False)), lambda it: it.report(SERVING)),
        (lambda it: it.report(Host()), lambda it: it.report(SERVING)),
        (lambda it: it.report(HALF), lambda it: it.report(SERVING)),
        (lambda it: it.services.report(it.first.node_id, {}), lambda it: it.report(SERVING)),
        (lambda it: retag(it, "tag:a"), lambda it: retag(it, "tag:k8s")),
        (lambda it: it.tailnet.delete_device(it.first), report_in_vain),
    ],
    ids=["disconnected", "withdrawn", "without configuration", "one port", "no report", "not approved", "deleted"],
)
def test_another_host_takes_over_the_traffic_once_the_primary_host_can_no_longer_serve(
    break_: Callable[[Hosted], None], heal: Callable[[Hosted], None]
) -> None:
    ground = hosted(SERVING, SERVING)
    approve_by_tag(ground, "tag:k8s")
    assert ground.primary == "first"
    break_(ground)
    heal(ground)
    assert (ground.primary, ground.services.backends("svc:web")) == ("second", SERVING.backends)


@pytest.mark.parametrize(
    ("ports", "host", "primary"),
    [
        (PORTS, SERVING, "first"),
        (PORTS[:1], SERVING, "first"),
        (PORTS, HALF, ""),
        (PORTS, Host(), ""),
        ((), Host(), "first"),
        (("do-not-validate",), Host(), "first"),
        (("do-not-validate",), replace(SERVING, advertises=False), ""),
    ],
)
def test_a_host_gets_traffic_only_if_it_serves_all_ports_of_the_tailscale_service(
    ports: tuple[str, ...], host: Host, primary: str
) -> None:
    ground = hosted(host, service=replace(WEB, ports=ports))
    assert ground.primary == primary
    assert ground.services.backends("svc:web") == (host.backends if primary else ())


@pytest.mark.parametrize(
    ("table", "level"),
    [
        (None, "approved:auto"),
        ({}, "not-approved"),
        ({"svc:web": ["tag:k8s"]}, "approved:auto"),
        ({"tag:web": ["tag:other", "tag:k8s"]}, "approved:auto"),
        ({"svc:web": ["tag:other"], "svc:app": ["tag:k8s"], "tag:k8s": ["tag:k8s"]}, "not-approved"),
    ],
)
def test_the_policy_or_an_admin_approves_a_host_of_a_tailscale_service(
    table: dict[str, list[str]] | None, level: str
) -> None:
    ground = hosted(SERVING)
    services, node_id = ground.services, ground.first.node_id
    services.approvers = table
    approved = level != "not-approved"
    assert services.approval("svc:web", node_id) == level
    assert ground.primary == ("first" if approved else "")
    assert services.names_of_host(node_id) == (["web.tail1234.ts.net"] if approved else [])
    services.approve("svc:web", node_id)
    assert (services.approval("svc:web", node_id), ground.primary) == ("approved:manual", "first")
    services.delete("svc:web")
    assert (ground.primary, services.names_of_host(node_id)) == ("", [])
    services.put(WEB)
    assert services.approval("svc:web", node_id) == level


def test_a_host_that_withdraws_its_tailscale_services_still_has_its_serve_configuration() -> None:
    ground = hosted()
    services, node_id = ground.services, ground.first.node_id
    services.report(node_id, {"svc:web": SERVING, "svc:api": Host()})
    services.withdraw(node_id)
    withdrawn = {node_id: replace(SERVING, advertises=False)}
    assert (services.hosts("svc:web"), services.hosts("svc:api")) == (withdrawn, {})
    ground.tailnet.delete_device(ground.first)
    services.withdraw(node_id)
    assert services.hosts("svc:web") == {}


def test_a_host_can_get_a_certificate_before_it_advertises_the_tailscale_service() -> None:
    ground = hosted(replace(SERVING, advertises=False))
    assert ground.services.names_of_host(ground.first.node_id) == ["web.tail1234.ts.net"]


def test_a_device_and_a_tailscale_service_never_have_the_same_name() -> None:
    tailnet = hosted().tailnet
    late = tailnet.register(new_key(tailnet), "Web")
    assert late.name == "web-1.tail1234.ts.net"
    (addresses,) = (service.addresses for service in tailnet.services.present.values())
    assert tailnet.addresses("web.tail1234.ts.net") == addresses
    assert tailnet.addresses(late.name) == late.addresses
    assert tailnet.addresses("web.example.org") == ()


def test_every_change_of_tailscale_services_changes_the_version_of_the_tailnet() -> None:
    ground = hosted()
    changes: list[Callable[[], object]] = [
        lambda: ground.services.put(WEB),
        lambda: ground.report(SERVING),
        lambda: ground.services.approve("svc:web", ground.first.node_id),
        lambda: ground.services.delete("svc:web"),
    ]
    for change in changes:
        before = ground.tailnet.version
        change()
        assert ground.tailnet.version > before
    before = ground.tailnet.version
    ground.report(SERVING)
    assert ground.tailnet.version == before
