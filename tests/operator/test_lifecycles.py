"""Ingresses and Connectors with a ProxyClass: what changes their proxies, and what ends them, in any order."""

from typing import NamedTuple

import pytest
from clustersim.furniture import definition
from clustersim.objects import CONNECTOR as SIM_CONNECTOR
from tsoperator.api.objects import CRD, STATEFULSET, Object, uid

from tests.operator.classes import BAD, container, foo
from tests.support.cluster import until
from tests.support.manifests import DOMAIN, backend, connector, ingress, proxy_class
from tests.support.operator import World

pytestmark = pytest.mark.full

WEB = f"web.{DOMAIN}"
AMOUNTS: Object = {"resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}}}
FORWARD = "tailscale.com/experimental-forward-cluster-traffic-via-ingress"


class Parent(NamedTuple):
    """An object with a proxy, without a class and with one, and what goes from one to the other."""

    plain: Object
    classy: Object
    with_class: Object
    without_class: Object


ANNOTATION = "tailscale.com/proxy-class"
PARENTS = {
    "Ingress": Parent(
        ingress(),
        ingress(proxy_class="prod"),
        {"metadata": {"annotations": {ANNOTATION: "prod"}}},
        {"metadata": {"annotations": {ANNOTATION: None}}},
    ),
    "Connector": Parent(
        connector(exitNode=True, hostname="gate"),
        connector(exitNode=True, hostname="gate", proxyClass="prod"),
        {"spec": {"proxyClass": "prod"}},
        {"spec": {"proxyClass": None}},
    ),
}
EACH = pytest.mark.parametrize("parent", PARENTS.values(), ids=PARENTS)


async def amounts(world: World, obj: Object) -> Object:
    """Return what the proxy's container gets of the node."""
    (statefulset,) = await world.children(STATEFULSET, obj)
    found: Object = statefulset["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


@EACH
async def test_a_class_is_put_on_once_it_is_ready_and_taken_off_again(world: World, parent: Parent) -> None:
    await world.apply(backend(), proxy_class(**BAD), parent.plain)
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


@pytest.mark.simulated  # on a shared API server the definition would be missed
async def test_connectors_go_with_their_definition_and_come_back_with_it(world: World) -> None:
    parent = PARENTS["Connector"].plain
    crd = {"apiVersion": CRD.api_version, "kind": CRD.kind, **definition(SIM_CONNECTOR)}
    await world.apply(parent)
    before = await world.joined(parent)
    await world.delete(crd)
    await world.becomes(lambda: world.leftovers(parent), [])
    await world.becomes(world.device_names, [])
    assert not await world.writes_when_left_alone()
    await world.apply(crd)
    await until(lambda: SIM_CONNECTOR in world.sim.kinds.all())
    await world.apply(parent)
    assert uid((await world.joined(parent)).statefulset) != uid(before.statefulset)


async def test_a_proxy_goes_into_the_kernel_to_forward_and_out_of_it_again(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await world.annotate(ingress(), {FORWARD: "true"})
    await world.becomes(lambda: foo(world, ingress(), "TS_USERSPACE"), "false")
    forwarding = await world.joined(ingress())
    assert len(forwarding.statefulset["spec"]["template"]["spec"]["initContainers"]) == 1
    assert forwarding.env["TS_SERVE_CONFIG"] == before.env["TS_SERVE_CONFIG"]
    await world.annotate(ingress(), {FORWARD: None})
    await world.becomes(lambda: foo(world, ingress(), "TS_USERSPACE"), "true")
    after = await world.joined(ingress())
    assert after.statefulset["spec"] == before.statefulset["spec"]
    assert await world.device_names() == [WEB]
    assert not await world.writes_when_left_alone()


async def test_an_ingress_that_asks_for_a_group_keeps_its_proxy_and_says_why(world: World) -> None:
    await world.apply(backend(), ingress())
    before = await world.joined(ingress())
    await world.annotate(ingress(), {"tailscale.com/proxy-group": "group"})

    async def said() -> bool:
        return "goes on serving it" in (await world.events(ingress())).get("NotSupportedYet", "")

    await world.eventually(said)
    await world.settled()
    after = await world.joined(ingress())
    assert (after.pod_uid, after.statefulset["spec"]) == (before.pod_uid, before.statefulset["spec"])
    assert await world.device_names() == [WEB]
    assert not await world.writes_when_left_alone()


async def test_of_ingresses_that_share_a_backend_only_those_of_our_class_follow_it(world: World) -> None:
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
    """Return the address that the proxy of the Ingress sends requests to."""
    proxy = await world.proxy(ingress())
    return proxy.state["serve-config"].split("http://")[1].split(":")[0] if proxy else ""
