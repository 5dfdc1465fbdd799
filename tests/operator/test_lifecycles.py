"""Objects with a proxy that are edited, or whose ProxyClass or backend comes and goes."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import STATEFULSET, Object

from tests.support.manifests import annotated, backend, connector, egress, ingress, proxy_class
from tests.support.operator import World

pytestmark = pytest.mark.full


def container(**fields: object) -> Object:
    """Return the spec of a class that changes the container in which tailscaled runs."""
    return {"statefulSet": {"pod": {"tailscaleContainer": fields}}}


AMOUNTS: Object = {"resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}}}


class Parent(NamedTuple):
    """An object whose proxy has no class, and the patches that give the proxy a class and take the class away."""

    plain: Object
    with_class: Object
    without_class: Object


GATE = connector(exitNode=True, hostname="gate")
PARENTS = {
    "Ingress": Parent(ingress(), annotated(proxy_class="prod"), annotated(proxy_class=None)),
    "Connector": Parent(GATE, {"spec": {"proxyClass": "prod"}}, {"spec": {"proxyClass": None}}),
}


async def amounts(world: World, obj: Object) -> Object:
    """Return the requests and the limits of CPU and memory of the container in the proxy of *obj*."""
    (statefulset,) = await world.children(STATEFULSET, obj)
    found: Object = statefulset["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


@pytest.mark.parametrize("parent", PARENTS.values(), ids=PARENTS)
async def test_a_proxy_gets_a_class_once_the_class_is_ready_and_loses_the_class_again(
    world: World, parent: Parent
) -> None:
    await world.apply(backend(), proxy_class(**container(image="FOO bar")), parent.plain)
    before = await world.joined(parent.plain)
    await world.change(parent.plain, parent.with_class)
    await world.settled()
    waiting = await world.joined(parent.plain)
    assert (waiting.pod_uid, waiting.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    await world.change(proxy_class(), {"spec": container(image=None, **AMOUNTS)})
    await world.becomes(lambda: amounts(world, parent.plain), AMOUNTS["resources"])
    await world.change(parent.plain, parent.without_class)
    await world.becomes(lambda: amounts(world, parent.plain), {"requests": {"cpu": "1m", "memory": "1Mi"}})
    after = await world.joined(parent.plain)
    assert (after.name, after.state["device_id"]) == (before.name, before.state["device_id"])
    assert not await world.writes_when_left_alone()


UNASKED = {
    "Service": (egress(), {"metadata": {"finalizers": None, "annotations": None}}),
    "Ingress": (ingress(), {"spec": {"ingressClassName": "nginx"}}),
    "unheld Ingress": (ingress(), {"metadata": {"finalizers": None}, "spec": {"ingressClassName": "nginx"}}),
}


@pytest.mark.parametrize(("parent", "patch"), UNASKED.values(), ids=UNASKED)
async def test_an_object_that_no_longer_asks_for_a_proxy_loses_its_proxy(
    world: World, parent: Object, patch: Object
) -> None:
    await world.apply(backend(), parent)
    await world.joined(parent)
    await world.change(parent, patch)
    await world.becomes(lambda: world.leftovers(parent), [])
    assert await world.device_names() == []
    assert not await world.writes_when_left_alone()
    live = await world.look(parent)
    assert ("finalizers" in live["metadata"], (live.get("status") or {}).get("loadBalancer")) == (False, {})


async def test_a_change_of_a_backend_changes_only_those_of_its_ingresses_that_have_our_ingress_class(
    world: World,
) -> None:
    theirs = ingress("theirs")
    theirs["spec"]["ingressClassName"] = "nginx"
    await world.apply(backend(), ingress(), theirs)
    await world.joined(ingress())
    untouched = await world.look(theirs)
    await world.delete(backend())
    await world.apply(backend(clusterIP="10.96.77.8"))
    await world.becomes(lambda: serves(world), "10.96.77.8")
    await world.settled()
    assert await world.look(theirs) == untouched
    assert await world.leftovers(theirs) == []


async def serves(world: World) -> str:
    """Return the address to which the proxy of the Ingress sends requests."""
    proxy = await world.proxy(ingress())
    return proxy.state["serve-config"].split("http://")[1].split(":")[0] if proxy else ""
