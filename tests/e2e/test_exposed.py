"""Exposed Services: devices of the tailnet reach a Service of the cluster, or its external name, through a proxy.

Pods can use the same name, which leads them to the Service directly.
"""

import pytest

from tests.e2e.cluster import Answer, Cluster, Object, dig, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, TO_WEB, exposed_service, web


@pytest.fixture(scope="module")
def pages(cluster: Cluster, shared_namespace: str) -> str:
    """A namespace with the Service ``web``, which serves the page."""
    cluster.apply(*web(shared_namespace, "web"))
    return shared_namespace


def reached(cluster: Cluster, outside: Peer, service: Object) -> bool:
    """Wait until a device gets the page by the name of the Service's device. The first packets may be lost."""
    cluster.device_proxy(service)
    url = f"http://{device_name(service)}/"
    return eventually(lambda: outside.curl(url).strip() == PAGE, f"the page of {url}")


def device_name(service: Object) -> str:
    metadata = service["metadata"]
    return f"{metadata['namespace']}-{metadata['name']}.{control.DOMAIN}"


def test_a_device_reaches_a_load_balancer_whose_status_names_it(cluster: Cluster, outside: Peer, pages: str) -> None:
    service = exposed_service(pages, "lb", BALANCED)
    cluster.apply(service)
    assert reached(cluster, outside, service)
    name = device_name(service)
    eventually(lambda: shown_hostnames(cluster.look(service)) == [name], f"{name} in the status")


def test_a_device_reaches_a_service_with_the_annotation(cluster: Cluster, outside: Peer, pages: str) -> None:
    service = exposed_service(pages, "plain", TO_WEB, expose="true")
    cluster.apply(service)
    assert reached(cluster, outside, service)


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


def test_the_status_says_that_a_service_without_a_cluster_ip_has_no_name(
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
