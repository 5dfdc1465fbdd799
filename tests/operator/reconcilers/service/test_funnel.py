"""Funnel on a LoadBalancer Service: the ports that are allowed, and the proxy's serve config."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service.ask import Ask, parse
from tsoperator.reconcilers.service.exposure import serve_config
from tsoperator.reconcilers.service.violations import funnel_violations

from tests.operator.reconcilers.service.specs import FUNNEL, LOAD_BALANCER
from tests.support.objects import egress_service, settings

DOMAIN = "${TS_CERT_DOMAIN}"


def ask(spec: Object) -> Ask:
    return parse(egress_service(FUNNEL, spec=LOAD_BALANCER | spec), settings())


@pytest.mark.parametrize(
    ("ports", "protocol", "named"),
    [
        ((443, 8443, 10000), "TCP", ""),
        ((80,), "TCP", "80/TCP"),
        ((443, 80, 22), "TCP", "80/TCP, 22/TCP"),
        ((443,), "UDP", "443/UDP"),
    ],
)
def test_the_violation_names_each_wrong_port_and_the_ports_that_work(
    ports: tuple[int, ...], protocol: str, named: str
) -> None:
    listed = [{"port": port, "protocol": protocol} for port in ports]
    found = funnel_violations(ask({"ports": listed}))
    words = f"Funnel can't serve port {named}: it works on TCP ports 443, 8443 and 10000 only"
    assert [each.startswith(words) and "tailscale.com/funnel" in each for each in found] == [True] * bool(named)


@pytest.mark.parametrize(("address", "host"), [("192.0.2.4", "192.0.2.4"), ("2001:db8::4", "[2001:db8::4]")])
def test_tls_ends_at_the_proxy_and_each_port_is_forwarded(address: str, host: str) -> None:
    spec = {"clusterIP": address, "ports": [{"port": 443}, {"port": 8443}]}
    assert serve_config(ask(spec)) == {
        "TCP": {
            "443": {"TCPForward": f"{host}:443", "TerminateTLS": DOMAIN},
            "8443": {"TCPForward": f"{host}:8443", "TerminateTLS": DOMAIN},
        },
        "AllowFunnel": {f"{DOMAIN}:443": True, f"{DOMAIN}:8443": True},
    }
