from typing import Any

import pytest
from clustersim import endpoints, garbage
from clustersim.controller import Key
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE, Object
from clustersim.store import Store

from tests.loadtest.clustersim.running import headless, until
from tests.support.cluster import running


def slices(store: Store) -> dict[str, Object]:
    found = store.list(ENDPOINTSLICE, "default", {"kubernetes.io/service-name": "web"})
    return {item["addressType"]: item for item in found}


def test_an_empty_endpointslice_has_the_labels_of_its_headless_service() -> None:
    store = Store()
    store.create(SERVICE, headless())
    endpoints.Endpoints(store).reconcile(Key("default", "web"))
    assert slices(store).keys() == {"IPv4", "IPv6"}
    found = slices(store)["IPv4"]
    assert found["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert (found["endpoints"], found["ports"]) == (None, None)


def test_a_deleted_pod_with_a_finalizer_is_a_serving_and_terminating_endpoint() -> None:
    store = Store()
    store.create(SERVICE, headless(ports=[{"name": "a", "port": 80, "targetPort": 8080}]))
    metadata = {"name": "a", "namespace": "default", "labels": {"app": "web"}, "finalizers": ["example.org/wait"]}
    store.create(POD, {"metadata": metadata, "spec": {"containers": [], "hostname": "a", "subdomain": "web"}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "podIPs": [{"ip": "192.0.2.1"}]}
    store.merge(POD, "default", "a", {"status": ready}, "status")
    store.delete(POD, "default", "a")
    endpoints.Endpoints(store).reconcile(Key("default", "web"))
    assert slices(store)["IPv4"]["ports"] == [{"name": "a", "port": 8080, "protocol": "TCP"}]
    (endpoint,) = slices(store)["IPv4"]["endpoints"]
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert (endpoint["targetRef"]["name"], endpoint["hostname"]) == ("a", "a")


@pytest.mark.parametrize(
    "spec", [{}, {"type": "ExternalName", "externalName": "example.org", "selector": {"app": "web"}}]
)
def test_a_service_without_a_selector_or_of_type_externalname_gets_no_endpointslices(spec: dict[str, Any]) -> None:
    store = Store()
    store.create(SERVICE, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    endpoints.Endpoints(store).reconcile(Key("default", "web"))
    assert not slices(store)


async def test_a_deleted_endpointslice_is_made_again_while_its_service_exists() -> None:
    store = Store()
    store.create(SERVICE, headless())
    async with running(endpoints.run(store), garbage.run(store)):
        await until(store, lambda: len(slices(store)) == 2)
        old = slices(store)["IPv4"]["metadata"]
        store.delete(ENDPOINTSLICE, "default", old["name"])
        await until(store, lambda: "IPv4" in slices(store) and slices(store)["IPv4"]["metadata"]["uid"] != old["uid"])
        store.delete(SERVICE, "default", "web")
        await until(store, lambda: not slices(store))
