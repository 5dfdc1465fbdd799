from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

import pytest
from clustersim.loadbalancers import PUBLIC, LoadBalancers, Shown
from clustersim.objects import SERVICE, Object
from clustersim.store import Store

from tests.loadtest.clustersim.running import until
from tests.loadtest.clustersim.serving import service
from tests.support.cluster import running

BALANCED: Object = {"type": "LoadBalancer"}


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def balancers(store: Store) -> AsyncIterator[LoadBalancers]:
    made = LoadBalancers(store)
    async with running(made.run()):
        yield made


def ingress(store: Store, name: str) -> list[Any]:
    status = store.get(SERVICE, "default", name).get("status", {})
    return list(status.get("loadBalancer", {}).get("ingress") or ())


async def test_each_service_of_type_loadbalancer_gets_a_public_address_of_its_own(
    store: Store, balancers: LoadBalancers
) -> None:
    for name in ("a", "b"):
        store.create(SERVICE, service(name, **BALANCED))
    await until(store, lambda: ingress(store, "a") and ingress(store, "b"))
    found = [entry for name in ("a", "b") for entry in ingress(store, name)]
    assert [{"ip": str(PUBLIC[number]), "ipMode": "VIP"} for number in (1, 2)] == found
    store.delete(SERVICE, "default", "a")
    store.create(SERVICE, service("c", **BALANCED))
    await until(store, lambda: ingress(store, "c"))
    assert ingress(store, "c") == found[:1]


@pytest.mark.parametrize(
    "spec", [{}, {"type": "NodePort"}, {**BALANCED, "loadBalancerClass": "tailscale"}, {"clusterIP": "None"}]
)
async def test_a_service_of_another_type_or_load_balancer_class_gets_no_public_address(
    store: Store, balancers: LoadBalancers, spec: Object
) -> None:
    store.create(SERVICE, service("a", **spec))
    store.create(SERVICE, service("b", **BALANCED))
    await until(store, lambda: ingress(store, "b"))
    assert ingress(store, "a") == []


async def test_a_test_chooses_whether_load_balancers_show_an_address_a_hostname_or_nothing(
    store: Store, balancers: LoadBalancers
) -> None:
    for name in ("a", "b"):
        store.create(SERVICE, service(name, **BALANCED))
    balancers.show(Shown.NOTHING)
    assert ingress(store, "a") == []
    store.merge(SERVICE, "default", "b", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}, "status")
    balancers.show(Shown.HOSTNAME)
    await until(store, lambda: ingress(store, "a"))
    (entry,) = ingress(store, "a")
    (address,) = balancers.addresses(entry["hostname"])
    assert (ip_address(address) in PUBLIC, ingress(store, "b")[0]["ip"]) == (True, "192.0.2.1")
    assert balancers.addresses("b.example.org") == []
