"""Funnel on LoadBalancer Services: the Internet reaches them at their device's name, with its certificate."""

from typing import Final

from tsoperator.api.names import ANNOTATION_FUNNEL, CERT_DOMAIN, LOAD_BALANCER_CLASS
from tsoperator.api.objects import Object, annotations
from tsoperator.api.rules import is_true

PORTS: Final = (443, 8443, 10000)
"""The ports that Funnel listens on; it has no others."""

NEEDS_BALANCER: Final = (
    f"annotation {ANNOTATION_FUNNEL} has no effect: Funnel works on Services of type LoadBalancer and class "
    f"{LOAD_BALANCER_CLASS} only. Make the Service one, let an Ingress with this annotation lead to it, or remove the "
    "annotation"
)
"""The message for a Service that asks for Funnel, but is no load balancer of ours."""


def asks(service: Object) -> bool:
    """Tell whether *service* asks to be reachable from the Internet."""
    return is_true(annotations(service).get(ANNOTATION_FUNNEL))


def violations(service: Object) -> list[str]:
    """Return which ports of *service* Funnel can't serve."""
    wrong = [
        f"{port['port']}/{protocol}"
        for port in service["spec"].get("ports") or ()
        if (protocol := port.get("protocol", "TCP")) != "TCP" or port["port"] not in PORTS
    ]
    if not wrong:
        return []
    taken = f"{', '.join(map(str, PORTS[:-1]))} and {PORTS[-1]}"
    return [
        f"Funnel can't serve port {', '.join(wrong)}: it works on TCP ports {taken} only; "
        f"give spec.ports those (targetPort may be any), or remove annotation {ANNOTATION_FUNNEL}"
    ]


def serve_config(service: Object) -> Object:
    """Return the serve config that ends TLS with the device's certificate and forwards each port to the cluster IP."""
    address = service["spec"]["clusterIP"]
    host = f"[{address}]" if ":" in address else address
    ports = [port["port"] for port in service["spec"].get("ports") or ()]
    return {
        "TCP": {str(port): {"TCPForward": f"{host}:{port}", "TerminateTLS": CERT_DOMAIN} for port in ports},
        "AllowFunnel": {f"{CERT_DOMAIN}:{port}": True for port in ports},
    }
