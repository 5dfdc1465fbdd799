"""Exposed Services: devices of the tailnet reach a Service of the cluster, or what it names, through a proxy."""

import pytest

from tests.e2e.cluster import Cluster, Object, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, TO_WEB, exposed_service, web


@pytest.fixture(scope="module")
def pages(cluster: Cluster, shared_namespace: str) -> str:
    """A namespace with the Service ``web`` in it that the page is behind."""
    cluster.apply(*web(shared_namespace, "web"))
    return shared_namespace


def reached(cluster: Cluster, outside: Peer, service: Object) -> bool:
    """A device gets the page by the name of the Service's device; the first packets may be lost."""
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


def test_a_device_reaches_what_an_external_name_names(cluster: Cluster, outside: Peer, pages: str) -> None:
    spec = {"type": "ExternalName", "externalName": f"web.{pages}.svc.cluster.local"}
    service = exposed_service(pages, "named", spec, expose="true")
    cluster.apply(service)
    assert reached(cluster, outside, service)
