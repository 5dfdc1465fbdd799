"""Services of every kind that has a proxy, and functions that wait for their proxies."""

from collections.abc import Callable, Iterable

from tsoperator.api.objects import Object, key_of

from tests.support.manifests import backend, egress, exposed, load_balancer, proxy_class
from tests.support.operator import Proxy, World

CLOUD = "cloud.example.org"
KINDS: dict[str, Callable[[str], Object]] = {
    "address": exposed,
    "name": lambda name: exposed(name, external_name=CLOUD),
    "balanced": load_balancer,
    "public": lambda name: load_balancer(name, 443, funnel="true"),
    "egress": egress,
    "egress by address": lambda name: egress(name, "100.64.0.9"),
}
"""The sorts of Services that have a proxy: a map from the name of a sort to the function that makes such a Service."""
PLAIN = "plain"
ALL_KINDS = {**KINDS, PLAIN: backend}
SERVICES = [build(f"svc-{number}") for number, build in enumerate(KINDS.values())]
"""One Service of each sort in `KINDS`."""
METERED = proxy_class(metrics={"enable": True})
"""A class that gives exposed proxies a metrics Service."""


async def whole(world: World, service: Object) -> Proxy | None:
    """Return the proxy of *service*; None until it has logged in and the condition has the reason ProxyCreated."""
    proxy = await world.proxy(service)
    served = await world.reason(service) == "ProxyCreated"
    return proxy if served and proxy and "device_fqdn" in proxy.state and "AuthKey" not in proxy.config else None


async def joined_proxies(world: World, services: Iterable[Object] = SERVICES) -> dict[str, Proxy]:
    """Wait until all *services* have their proxies, and return the proxies by the names of the Services."""
    for service in services:
        await world.eventually(lambda service=service: whole(world, service))  # type: ignore[misc]  # a value is bound
    await world.settled()
    found = {key_of(service).name: await whole(world, service) for service in services}
    return {name: proxy for name, proxy in found.items() if proxy}


def device_ids(proxies: dict[str, Proxy]) -> dict[str, str]:
    return {name: proxy.state["device_id"] for name, proxy in proxies.items()}
