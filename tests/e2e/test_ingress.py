"""Ingress: devices of the tailnet, and Pods, reach a Service of the cluster through a proxy that serves HTTPS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Answer, Cluster, Object, dig, pod_ip, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PAGE, ingress, web

NAME = f"shop.{control.DOMAIN}"
FORWARD = {"experimental_forward_cluster_traffic_via_ingress": "true"}
ROOT_IN_POD = "/tmp/root.pem"


@pytest.fixture(scope="module")
def shop(cluster: Cluster, nameserver: str, shared_namespace: str) -> Object:
    """An Ingress that redirects plain HTTP, and that Pods can use by its MagicDNS name."""
    shown = ingress(shared_namespace, "shop", http_redirect="true", **FORWARD)
    cluster.apply(*web(shared_namespace, "web"), shown)
    address = Answer("NOERROR", (pod_ip(cluster.device_proxy(shown)),))
    eventually(lambda: dig(cluster.bed, nameserver, NAME) == address, f"{NAME} is {address}")
    return shown


def test_a_device_gets_the_page_of_an_ingress_with_a_certificate_of_the_trusted_authority(
    shop: Object, outside: Peer, acme_root: Path
) -> None:
    fetch: list[str | Path] = ["--cacert", acme_root, f"https://{NAME}/"]
    eventually(lambda: outside.curl(*fetch).strip() == PAGE, "the page over HTTPS")


def test_a_plain_http_request_to_an_ingress_is_redirected_to_https(
    shop: Object, outside: Peer, acme_root: Path
) -> None:
    fetch: list[str | Path] = [
        "--location",
        "--cacert",
        acme_root,
        "--write-out",
        "%{num_redirects}",
        f"http://{NAME}/",
    ]
    eventually(lambda: outside.curl(*fetch).split("\n") == [PAGE, "1"], "the page after one redirect")


@pytest.fixture(scope="module")
def trusting(cluster: Cluster, client: Object, acme_root: Path) -> Object:
    """A Pod that has the root certificate of the ACME server."""
    metadata = client["metadata"]
    write = ["exec", "-i", metadata["name"], "-n", metadata["namespace"], "--", "sh", "-c", f"cat > {ROOT_IN_POD}"]
    cluster.bed.kubectl(*write, stdin=acme_root.read_text())
    return client


def gets_the_page(cluster: Cluster, trusting: Object, name: str) -> bool:
    fetch = ["--cacert", ROOT_IN_POD, f"https://{name}/"]
    return eventually(lambda: cluster.curl(trusting, *fetch).strip() == PAGE, "the page over HTTPS")


def test_a_pod_gets_the_page_of_an_ingress_by_its_magicdns_name(
    cluster: Cluster, trusting: Object, shop: Object
) -> None:
    assert gets_the_page(cluster, trusting, NAME)


@pytest.fixture
def ingress_names(cluster: Cluster, nameserver: str) -> Iterator[None]:
    """Set the field of the DNSConfig by which Pods reach all Ingresses. At the end the field is removed."""
    (dnsconfig,) = cluster.listed("dnsconfigs")
    cluster.patch(dnsconfig, {"spec": {"clusterDNS": {"ingressNames": True}}})
    yield
    cluster.patch(dnsconfig, {"spec": {"clusterDNS": {"ingressNames": None}}})


def test_a_pod_gets_the_page_of_any_ingress_if_the_dnsconfig_asks_for_names_of_ingresses(
    cluster: Cluster, trusting: Object, shop: Object, ingress_names: None
) -> None:
    shown = ingress(shop["metadata"]["namespace"], "tea")
    cluster.apply(shown)
    cluster.device_proxy(shown)
    assert gets_the_page(cluster, trusting, f"tea.{control.DOMAIN}")


def test_the_status_of_an_ingress_names_its_device(cluster: Cluster, shop: Object) -> None:
    eventually(lambda: shown_hostnames(cluster.look(shop)) == [NAME], f"{NAME} in the status")
