from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from clustersim import endpoints, garbage, kubelet
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import headless, running, until


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = Store()
    programs = (endpoints.run(store), garbage.run(store), kubelet.run(store, Tailnet()))
    async with running(*programs):
        yield store


def pod(name: str = "web-0", **extra: Any) -> Object:
    container = {"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, **extra}
    return {"metadata": metadata, "spec": {"containers": [container], "hostname": name, "subdomain": "web"}}


def slices(store: Store) -> dict[str, Object]:
    found = store.list(ENDPOINTSLICE, "default", {"kubernetes.io/service-name": "web"})
    return {item["addressType"]: item for item in found}


def addresses(store: Store, family: str = "IPv4") -> list[str]:
    found = slices(store).get(family, {}).get("endpoints") or []
    return [address for endpoint in found for address in endpoint["addresses"]]


def ready(store: Store) -> list[bool]:
    found = slices(store).get("IPv4", {}).get("endpoints") or []
    return [endpoint["conditions"]["ready"] for endpoint in found]


def has(store: Store, number: int) -> Callable[[], bool]:
    return lambda: len(addresses(store)) == len(addresses(store, "IPv6")) == number and all(ready(store))


async def test_a_dual_stack_service_has_a_slice_a_family(store: Store) -> None:
    store.create(SERVICE, headless())
    store.create(POD, pod())
    await until(store, has(store, 1))
    ips = [entry["ip"] for entry in store.get(POD, "default", "web-0")["status"]["podIPs"]]
    assert [*addresses(store), *addresses(store, "IPv6")] == ips


async def test_an_endpoint_names_its_pod_and_node(store: Store) -> None:
    store.create(SERVICE, headless())
    uid = store.create(POD, pod())["metadata"]["uid"]
    await until(store, has(store, 1))
    (endpoint,) = slices(store)["IPv4"]["endpoints"]
    assert endpoint["targetRef"] == {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": uid}
    assert (endpoint["nodeName"], endpoint["hostname"]) == ("node1", "web-0")
    assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}


async def test_a_slice_carries_the_labels_of_a_headless_service(store: Store) -> None:
    service = store.create(SERVICE, headless())
    await until(store, lambda: len(slices(store)) == 2)
    metadata = slices(store)["IPv4"]["metadata"]
    assert metadata["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert metadata["name"].startswith("web-")
    assert metadata["ownerReferences"][0]["uid"] == service["metadata"]["uid"]


async def test_an_empty_slice_has_null_endpoints_and_ports(store: Store) -> None:
    store.create(SERVICE, headless())
    await until(store, lambda: slices(store))
    assert (slices(store)["IPv4"]["endpoints"], slices(store)["IPv4"]["ports"]) == (None, None)


async def test_ports_are_those_of_the_pod(store: Store) -> None:
    ports = [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 53, "protocol": "UDP"}]
    store.create(SERVICE, headless(clusterIP="", ports=ports))
    store.create(POD, pod())
    await until(store, has(store, 1))
    assert slices(store)["IPv4"]["ports"] == [
        {"name": "a", "port": 8080, "protocol": "TCP"},
        {"name": "b", "port": 53, "protocol": "UDP"},
    ]
    assert "service.kubernetes.io/headless" not in slices(store)["IPv4"]["metadata"]["labels"]


async def test_a_deleted_pod_leaves_the_slice(store: Store) -> None:
    store.create(SERVICE, headless())
    store.create(POD, pod("web-0"))
    store.create(POD, pod("web-1"))
    await until(store, has(store, 2))
    store.delete(POD, "default", "web-0")
    await until(store, has(store, 1))
    assert slices(store)["IPv4"]["endpoints"][0]["targetRef"]["name"] == "web-1"


async def test_a_pod_that_waits_for_its_finalizer_is_terminating(store: Store) -> None:
    store.create(SERVICE, headless())
    store.create(POD, pod(finalizers=["example.org/wait"]))
    await until(store, has(store, 1))
    store.delete(POD, "default", "web-0")
    await until(store, lambda: ready(store) == [False])
    (endpoint,) = slices(store)["IPv4"]["endpoints"]
    assert endpoint["conditions"]["terminating"] is True


async def test_a_pod_whose_label_goes_leaves_the_slice(store: Store) -> None:
    store.create(SERVICE, headless())
    store.create(POD, pod())
    await until(store, has(store, 1))
    store.merge(POD, "default", "web-0", {"metadata": {"labels": {"app": "other"}}})
    await until(store, lambda: addresses(store) == [])


async def test_a_pod_behind_a_readiness_gate_is_not_ready(store: Store) -> None:
    gated = pod()
    gated["spec"]["readinessGates"] = [{"conditionType": "example.org/gate"}]
    store.create(SERVICE, headless())
    store.create(POD, gated)
    await until(store, lambda: ready(store) == [False])
    conditions = store.get(POD, "default", "web-0")["status"]["conditions"]
    open_gate = {"type": "example.org/gate", "status": "True"}
    store.merge(POD, "default", "web-0", {"status": {"conditions": [*conditions, open_gate]}}, "status")
    await until(store, has(store, 1))


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName", "externalName": "example.org"}])
async def test_a_service_without_pods_to_select_has_no_slices(store: Store, spec: dict[str, Any]) -> None:
    cluster_ip = {"clusterIP": None, "ipFamilies": None, "ipFamilyPolicy": None} if "type" in spec else {}
    store.create(SERVICE, headless(**{**cluster_ip, **spec}))
    store.create(SERVICE, headless("other"))
    await until(store, lambda: len(store.list(ENDPOINTSLICE)) == 2)
    assert not slices(store)


async def test_a_removed_slice_comes_back(store: Store) -> None:
    store.create(SERVICE, headless())
    await until(store, lambda: slices(store))
    old = slices(store)["IPv4"]["metadata"]
    store.delete(ENDPOINTSLICE, "default", old["name"])
    await until(store, lambda: "IPv4" in slices(store) and slices(store)["IPv4"]["metadata"]["uid"] != old["uid"])


async def test_the_slices_go_with_the_service(store: Store) -> None:
    store.create(SERVICE, headless())
    await until(store, lambda: len(slices(store)) == 2)
    store.delete(SERVICE, "default", "web")
    await until(store, lambda: not slices(store))
