from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from clustersim import endpoints, garbage, kubelet
from clustersim.controller import Key
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import headless, running, until


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A cluster's store with a headless Service of both families and without Pods."""
    store = Store()
    async with running(endpoints.run(store), garbage.run(store), kubelet.run(store, Tailnet())):
        store.create(SERVICE, headless())
        await until(store, lambda: len(slices(store)) == 2)
        yield store


def pod(name: str = "web-0", **extra: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, **extra}
    return {"metadata": metadata, "spec": {"containers": [{"name": "web"}], "hostname": name, "subdomain": "web"}}


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


async def test_an_empty_slice_carries_the_labels_of_its_headless_service(store: Store) -> None:
    found = slices(store)["IPv4"]
    assert found["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert found["metadata"]["name"].startswith("web-")
    assert (found["endpoints"], found["ports"]) == (None, None)


def test_a_pod_that_waits_for_its_finalizer_serves_and_is_terminating() -> None:
    store = Store()
    store.create(SERVICE, headless())
    store.create(POD, pod(finalizers=["example.org/wait"]))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "podIPs": [{"ip": "192.0.2.1"}]}
    store.merge(POD, "default", "web-0", {"status": ready}, "status")
    store.delete(POD, "default", "web-0")
    endpoints.Endpoints(store).reconcile(Key("default", "web"))
    (endpoint,) = slices(store)["IPv4"]["endpoints"]
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert (endpoint["targetRef"]["name"], endpoint["hostname"]) == ("web-0", "web-0")


async def test_a_pod_behind_a_readiness_gate_is_not_ready(store: Store) -> None:
    gated = pod()
    gated["spec"]["readinessGates"] = [{"conditionType": "example.org/gate"}]
    store.create(POD, gated)
    await until(store, lambda: ready(store) == [False])
    conditions = store.get(POD, "default", "web-0")["status"]["conditions"]
    open_gate = {"type": "example.org/gate", "status": "True"}
    store.merge(POD, "default", "web-0", {"status": {"conditions": [*conditions, open_gate]}}, "status")
    await until(store, has(store, 1))


@pytest.mark.parametrize(
    "spec", [{}, {"type": "ExternalName", "externalName": "example.org", "selector": {"app": "web"}}]
)
async def test_a_service_without_pods_to_select_has_no_slices(store: Store, spec: dict[str, Any]) -> None:
    store.create(SERVICE, {"metadata": {"name": "bare", "namespace": "default"}, "spec": spec})
    store.create(SERVICE, headless("other"))
    await until(store, lambda: len(store.list(ENDPOINTSLICE)) == 4)
    assert {obj["metadata"]["name"].rpartition("-")[0] for obj in store.list(ENDPOINTSLICE)} == {"web", "other"}


async def test_a_removed_slice_comes_back_until_the_service_goes(store: Store) -> None:
    old = slices(store)["IPv4"]["metadata"]
    store.delete(ENDPOINTSLICE, "default", old["name"])
    await until(store, lambda: "IPv4" in slices(store) and slices(store)["IPv4"]["metadata"]["uid"] != old["uid"])
    store.delete(SERVICE, "default", "web")
    await until(store, lambda: not slices(store))
