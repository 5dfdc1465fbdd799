"""The way to health ports through the simulated cluster."""

import aiohttp
import pytest
from clustersim.health import Answer, HealthProxy
from clustersim.objects import ENDPOINTSLICE, SERVICE, Object
from clustersim.store import Store

PODS = {"10.244.0.2": (200, {"Pod-IPv4": "10.244.0.2"}), "10.244.0.3": (503, {})}


def ask(address: str, port: int) -> Answer | None:
    return PODS.get(address) if port == 9002 else None


def endpointslice(*addresses: str, name: str = "ts-db", family: str = "IPv4", **more: object) -> Object:
    return {
        "metadata": {"name": f"{name}-x", "namespace": "tailscale", "labels": {"kubernetes.io/service-name": name}},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "tailscale-health-check", "port": 9002}, {"name": "other", "port": 10437}],
        **more,
    }


@pytest.fixture
def store() -> Store:
    store = Store()
    ports = [{"name": "other", "port": 5432, "targetPort": 10437}, {"name": "tailscale-health-check", "port": 9004}]
    for name in ("ts-db", "ts-none"):
        spec = {"ports": ports}
        store.create(SERVICE, {"metadata": {"name": name, "namespace": "tailscale"}, "spec": spec})
    return store


async def answers(store: Store, url: str, count: int = 1) -> list[tuple[int, str] | None]:
    """Return the status and the header of each answer, None for an error."""
    found: list[tuple[int, str] | None] = []
    async with HealthProxy(store, ask).serve() as proxy, aiohttp.ClientSession() as session:
        for _ in range(count):
            try:
                async with session.get(url, proxy=proxy) as response:
                    found.append((response.status, response.headers.get("Pod-IPv4", "")))
            except aiohttp.ClientError:
                found.append(None)
    return found


async def test_each_ready_pod_behind_a_service_answers_now_and_then(store: Store) -> None:
    store.create(ENDPOINTSLICE, endpointslice(*PODS))
    found = await answers(store, "http://ts-db.tailscale.svc.cluster.local:9004/healthz", 20)
    assert set(found) == {(200, "10.244.0.2"), (503, "")}


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("http://ts-db.tailscale.svc.cluster.local:9004/other", (404, "")),
        ("http://ts-db.tailscale.svc.cluster.local:9002/healthz", None),
        ("http://ts-db.tailscale.svc.cluster.local:5432/healthz", None),
        ("http://ts-db.default.svc.cluster.local:9004/healthz", None),
        ("http://ts-none.tailscale.svc.cluster.local:9004/healthz", None),
        ("http://localhost:9004/healthz", None),
    ],
)
async def test_a_service_that_leads_nowhere_cuts_the_connection(
    store: Store, url: str, answer: tuple[int, str] | None
) -> None:
    store.create(ENDPOINTSLICE, endpointslice("10.244.0.2"))
    assert await answers(store, url) == [answer]


@pytest.mark.parametrize(
    "unused",
    [
        endpointslice("10.244.0.2", family="IPv6"),
        endpointslice("10.244.0.9"),
        endpointslice(endpoints=[{"addresses": ["10.244.0.2"], "conditions": {"ready": False}}]),
        endpointslice("10.244.0.2", ports=None),
    ],
)
async def test_an_endpoint_that_takes_nothing_gets_no_request(store: Store, unused: Object) -> None:
    store.create(ENDPOINTSLICE, unused)
    assert await answers(store, "http://ts-db.tailscale.svc.cluster.local:9004/healthz") == [None]
