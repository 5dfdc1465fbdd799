"""Tests of requests to the health ports of proxies, by the addresses of Services in the simulated cluster."""

import aiohttp
import pytest
from clustersim.health import Answer, HealthProxy
from clustersim.objects import ENDPOINTSLICE, SERVICE, Object
from clustersim.store import Store

PODS = {"10.244.0.2": (200, {"Pod-IPv4": "10.244.0.2"}), "10.244.0.3": (503, {})}
HEALTH = "http://ts-db.tailscale.svc.cluster.local:9004/healthz"


def ask(address: str, port: int) -> Answer | None:
    return PODS.get(address) if port == 9002 else None


def endpointslice(*addresses: str, family: str = "IPv4", **more: object) -> Object:
    return {
        "metadata": {"name": "a", "namespace": "tailscale", "labels": {"kubernetes.io/service-name": "ts-db"}},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "health", "port": 9002}, {"name": "other", "port": 10437}],
        **more,
    }


async def answers(slice_: Object, url: str = HEALTH, count: int = 1) -> list[tuple[int, str] | None]:
    """Request *url* *count* times through the health proxy. Return the status and the header Pod-IPv4 of each answer.

    None stands for an error. The Service ts-db has the endpoints in *slice_*, and the Service ts-none has no endpoints.
    """
    store = Store()
    ports = [{"name": "other", "port": 5432, "targetPort": 10437}, {"name": "health", "port": 9004}]
    for name in ("ts-db", "ts-none"):
        store.create(SERVICE, {"metadata": {"name": name, "namespace": "tailscale"}, "spec": {"ports": ports}})
    store.create(ENDPOINTSLICE, slice_)
    found: list[tuple[int, str] | None] = []
    async with HealthProxy(store, ask).serve() as proxy, aiohttp.ClientSession() as session:
        for _ in range(count):
            try:
                async with session.get(url, proxy=proxy) as response:
                    found.append((response.status, response.headers.get("Pod-IPv4", "")))
            except aiohttp.ClientError:
                found.append(None)
    return found


async def test_each_ready_pod_behind_a_service_answers_some_of_many_health_requests() -> None:
    assert {*await answers(endpointslice(*PODS), count=20)} == {(200, "10.244.0.2"), (503, "")}


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        (HEALTH.replace("healthz", "other"), (404, "")),
        (HEALTH.replace("9004", "9002"), None),
        (HEALTH.replace("9004", "5432"), None),
        (HEALTH.replace("tailscale", "default"), None),
        (HEALTH.replace("ts-db", "ts-none"), None),
        ("http://localhost:9004/healthz", None),
    ],
)
async def test_a_health_request_to_a_wrong_path_or_port_or_to_a_service_without_endpoints_fails(
    url: str, answer: tuple[int, str] | None
) -> None:
    assert await answers(endpointslice("10.244.0.2"), url) == [answer]


@pytest.mark.parametrize(
    "unused",
    [
        endpointslice("10.244.0.2", family="IPv6"),
        endpointslice("10.244.0.9"),
        endpointslice(endpoints=[{"addresses": ["10.244.0.2"], "conditions": {"ready": False}}]),
        endpointslice("10.244.0.2", ports=None),
    ],
)
async def test_a_health_request_fails_if_no_endpoint_of_the_service_can_answer_it(unused: Object) -> None:
    assert await answers(unused) == [None]
