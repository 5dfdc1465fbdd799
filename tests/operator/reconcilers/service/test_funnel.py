"""Funnel on a LoadBalancer Service: which ports it takes, and what the proxy is told to serve."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service import funnel

from tests.support.objects import egress_service

FUNNEL = "tailscale.com/funnel"
DOMAIN = "${TS_CERT_DOMAIN}"


def public(*ports: int, address: str = "192.0.2.4", protocol: str = "TCP") -> Object:
    """A LoadBalancer Service with Funnel."""
    listed = [{"port": port, "protocol": protocol} for port in ports]
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": address, "ports": listed}
    return egress_service({FUNNEL: "true"}, spec=spec)


@pytest.mark.parametrize("ports", [(443,), (8443,), (10000,), (443, 8443, 10000)])
def test_the_ports_of_funnel_are_good(ports: tuple[int, ...]) -> None:
    assert funnel.violations(public(*ports)) == []


@pytest.mark.parametrize(
    ("service", "named"),
    [(public(80), "80/TCP"), (public(443, 80, 22), "80/TCP, 22/TCP"), (public(443, protocol="UDP"), "443/UDP")],
)
def test_every_other_port_is_named_with_those_that_work(service: Object, named: str) -> None:
    (message,) = funnel.violations(service)
    assert message.startswith(f"Funnel can't serve port {named}: it works on TCP ports 443, 8443 and 10000 only")
    assert FUNNEL in message


def test_tls_ends_at_the_proxy_and_each_port_is_forwarded() -> None:
    assert funnel.serve_config(public(443, 8443)) == {
        "TCP": {
            "443": {"TCPForward": "192.0.2.4:443", "TerminateTLS": DOMAIN},
            "8443": {"TCPForward": "192.0.2.4:8443", "TerminateTLS": DOMAIN},
        },
        "AllowFunnel": {f"{DOMAIN}:443": True, f"{DOMAIN}:8443": True},
    }


def test_an_ipv6_cluster_ip_is_in_brackets() -> None:
    config = funnel.serve_config(public(443, address="2001:db8::4"))
    assert config["TCP"]["443"]["TCPForward"] == "[2001:db8::4]:443"
