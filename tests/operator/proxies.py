"""Facts about the proxies of a World, for loop tests that wait for them."""

from tsoperator.api.objects import Object

from tests.support.operator import Proxy, World


async def restarted(world: World, before: Proxy, parent: Object) -> bool:
    """Return True if the proxy of *parent* is ready with another Pod than *before*."""
    proxy = await world.proxy(parent)
    return proxy is not None and proxy.pod_uid != before.pod_uid


async def served_name(world: World, parent: Object) -> str:
    """Return the hostname in the status of *parent*, an Ingress or a LoadBalancer Service, or an empty text."""
    entries = ((await world.look(parent)).get("status") or {}).get("loadBalancer", {}).get("ingress")
    return str(entries[0].get("hostname")) if entries else ""


async def event(world: World, obj: Object, reason: str) -> str:
    return (await world.events(obj)).get(reason, "")
