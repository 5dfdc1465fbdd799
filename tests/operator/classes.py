"""ProxyClasses that loop tests use, and what came of them."""

from typing import Any

from tsoperator.api.objects import SERVICE, STATEFULSET, Object, key_of

from tests.support.manifests import proxy_class
from tests.support.operator import NAMESPACE, Proxy, World


def container(**fields: Any) -> Object:
    """Return the spec of a class that changes the container of tailscaled."""
    return {"statefulSet": {"pod": {"tailscaleContainer": fields}}}


def variable(value: str) -> Object:
    """Return the spec of a class that sets FOO to *value* in the container of tailscaled."""
    return container(env=[{"name": "FOO", "value": value}])


FOO: Object = variable("1")
BAD: Object = container(image="FOO bar")
METRICS: Object = {"metrics": {"enable": True}}


async def joined_with_class(world: World, parent: Object, **spec: Any) -> Proxy:
    """Return the proxy of *parent*, which names the ProxyClass ``prod``, a new one with *spec*."""
    await world.apply(proxy_class(**spec), parent)
    return await world.joined(parent)


async def class_reason(world: World) -> str:
    """Return why the ProxyClass ``prod`` is ready or not."""
    return await world.reason(proxy_class(), "ProxyClassReady")


async def foo(world: World, parent: Object) -> str | None:
    """Return the variable FOO of the proxy's container, in the StatefulSet."""
    statefulsets = await world.children(STATEFULSET, parent)
    return Proxy({}, statefulsets[0], {}, {}).env.get("FOO") if statefulsets else None


async def metrics_services(world: World) -> list[str]:
    """Return the names of the Services that lead to metrics."""
    selector = "tailscale.com/metrics-target,tailscale.com/managed=true"
    return [key_of(obj).name for obj in (await world.api.list(SERVICE, NAMESPACE, selector)).items]
