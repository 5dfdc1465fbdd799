"""Funnel on a LoadBalancer Service: which ports it takes, and what the proxy is told to serve."""

import pytest
from tsoperator.reconcilers.service import funnel

from tests.operator.reconcilers.service.specs import FUNNEL, LOAD_BALANCER
from tests.support.objects import egress_service

DOMAIN = "${TS_CERT_DOMAIN}"


@pytest.mark.parametrize(
    ("ports", "protocol", "named"),
    [
        ((443, 8443, 10000), "TCP", ""),
        ((80,), "TCP", "80/TCP"),
        ((443, 80, 22), "TCP", "80/TCP, 22/TCP"),
        ((443,), "UDP", "443/UDP"),
    ],
)
def test_every_other_port_is_named_with_those_that_work(ports: tuple[int, ...], protocol: str, named: str) -> None:
    listed = [{"port": port, "protocol": protocol} for port in ports]
    found = funnel.violations(egress_service(FUNNEL, spec={**LOAD_BALANCER, "ports": listed}))
    words = f"Funnel can't serve port {named}: it works on TCP ports 443, 8443 and 10000 only"
    assert [each.startswith(words) and "tailscale.com/funnel" in each for each in found] == [True] * bool(named)


@pytest.mark.parametrize(("address", "host"), [("192.0.2.4", "192.0.2.4"), ("2001:db8::4", "[2001:db8::4]")])
def test_tls_ends_at_the_proxy_and_each_port_is_forwarded(address: str, host: str) -> None:
    spec = {**LOAD_BALANCER, "clusterIP": address, "ports": [{"port": 443}, {"port": 8443}]}
    assert funnel.serve_config(egress_service(FUNNEL, spec=spec)) == {
        "TCP": {
            "443": {"TCPForward": f"{host}:443", "TerminateTLS": DOMAIN},
            "8443": {"TCPForward": f"{host}:8443", "TerminateTLS": DOMAIN},
        },
        "AllowFunnel": {f"{DOMAIN}:443": True, f"{DOMAIN}:8443": True},
    }
