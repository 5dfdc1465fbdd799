"""Exposed Services: devices of the tailnet reach a Service of the cluster, or its external name, through a proxy.

Pods can use the same name, which leads them to the Service directly.
"""

from pathlib import Path

import pytest

from tests.e2e.cluster import Answer, Cluster, Object, dig, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.pki import Pki
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, TO_WEB, exposed_service, pod, web


@pytest.fixture(scope="module")
def pages(cluster: Cluster, shared_namespace: str) -> str:
    """A namespace with the Service ``web``, which serves the page."""
    cluster.apply(*web(shared_namespace, "web"))
    return shared_namespace


def reached(cluster: Cluster, outside: Peer, service: Object) -> bool:
    """Wait until *outside* gets the page by the name of the device of *service*. Then return True.

    The first packets can be lost.
    """
    cluster.device_proxy(service)
    url = f"http://{device_name(service)}/"
    return eventually(lambda: outside.curl(url).strip() == PAGE, f"the page of {url}")


def device_name(service: Object) -> str:
    metadata = service["metadata"]
    return f"{metadata['namespace']}-{metadata['name']}.{control.DOMAIN}"


def test_a_device_reaches_a_service_of_type_loadbalancer_by_the_name_in_its_status(
    cluster: Cluster, outside: Peer, pages: str
) -> None:
    service = exposed_service(pages, "lb", BALANCED)
    cluster.apply(service)
    assert reached(cluster, outside, service)
    name = device_name(service)
    eventually(lambda: shown_hostnames(cluster.look(service)) == [name], f"{name} in the status")


def test_a_device_reaches_a_service_that_has_the_annotation_expose(cluster: Cluster, outside: Peer, pages: str) -> None:
    service = exposed_service(pages, "plain", TO_WEB, expose="true")
    cluster.apply(service)
    assert reached(cluster, outside, service)


_GATEWAY = """
import http.server, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server = http.server.HTTPServer(("", 8443), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
"""The program of a gateway, which ends TLS with the certificate from a Secret and serves a list of files."""


def test_a_gateway_behind_a_load_balancer_serves_a_users_own_domain_with_its_certificate(
    cluster: Cluster, outside: Peer, shared_namespace: str, tmp_path: Path
) -> None:
    """The setup is that of docs/own-domain.md.

    The Secret is like those of cert-manager. Like external-dns, the test takes the address from the Service's status.
    """
    pki = Pki(tmp_path)
    pki.make_ca()
    pki.issue("shop", "/CN=shop.example.org", ["DNS:shop.example.org"])
    files = {"tls.crt": pki.certificate("shop").read_text(), "tls.key": pki.key("shop").read_text()}
    place = {"namespace": shared_namespace, "name": "shop-tls"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": place, "type": "kubernetes.io/tls", "stringData": files}
    mount = {"name": "tls", "mountPath": "/tls", "readOnly": True}
    probe = {"tcpSocket": {"port": 8443}, "periodSeconds": 1}
    gateway = pod(
        shared_namespace,
        "gateway",
        {"command": ["python3", "-c", _GATEWAY], "volumeMounts": [mount], "readinessProbe": probe},
    )
    gateway["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "shop-tls"}}]
    ports = [{"name": "https", "port": 443, "targetPort": 8443}]
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "selector": {"app": "gateway"}, "ports": ports}
    service = exposed_service(shared_namespace, "gateway", spec)
    cluster.apply(secret, gateway, service)
    cluster.device_proxy(service)

    def addresses() -> list[str]:
        entries = cluster.look(service)["status"].get("loadBalancer", {}).get("ingress", [])
        return [entry["ip"] for entry in entries if "ip" in entry]

    shown = eventually(addresses, "the addresses in the status")
    asked = ("--cacert", pki.ca, "--connect-to", f"::{shown[0]}:", "https://shop.example.org/")
    eventually(lambda: "Directory listing" in outside.curl(*asked), "the page of the gateway")


@pytest.mark.parametrize(("name", "spec", "given"), [("lb", BALANCED, {}), ("plain", TO_WEB, {"expose": "true"})])
def test_a_pod_reaches_a_service_by_the_name_of_its_device(
    cluster: Cluster, client: Object, nameserver: str, pages: str, name: str, spec: Object, given: dict[str, str]
) -> None:
    service = exposed_service(pages, name, spec, **given)
    cluster.apply(service)
    host = device_name(service)
    address = Answer("NOERROR", (cluster.look(service)["spec"]["clusterIP"],))
    eventually(lambda: dig(cluster.bed, nameserver, host) == address, f"{host} is {address}")
    eventually(lambda: cluster.curl(client, f"http://{host}/").strip() == PAGE, f"the page of {host}")


def test_an_event_says_that_a_service_without_a_cluster_ip_has_no_name_in_the_clusters_dns(
    cluster: Cluster, nameserver: str, pages: str
) -> None:
    service = exposed_service(pages, "cloud", {"type": "ExternalName", "externalName": "db.example.org"}, expose="true")
    cluster.apply(service)
    cluster.device_proxy(service)

    def told() -> list[str]:
        said = (event["message"] for event in cluster.listed("events", pages) if event["reason"] == "NoClusterName")
        return [message for message in said if "let them use db.example.org" in message]

    eventually(told, "an Event that says why")
    assert dig(cluster.bed, nameserver, device_name(service)) == Answer("NXDOMAIN")


def test_a_device_reaches_the_external_host_of_an_externalname_service(
    cluster: Cluster, outside: Peer, pages: str
) -> None:
    spec = {"type": "ExternalName", "externalName": f"web.{pages}.svc.cluster.local"}
    service = exposed_service(pages, "named", spec, expose="true")
    cluster.apply(service)
    assert reached(cluster, outside, service)
