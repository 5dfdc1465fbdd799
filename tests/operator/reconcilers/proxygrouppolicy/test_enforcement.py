"""A real API server enforces ProxyGroupPolicies: it refuses what they forbid, and lets everything else pass."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object, has_finalizer
from tsoperator.kube.errors import Rejected
from tsoperator.reconcilers.proxygrouppolicy.admission import admission_policies
from tsoperator.reconcilers.proxygrouppolicy.ask import Allowed

from tests.support.manifests import backend, exposed, group_egress, group_policy, ingress, load_balancer, proxy_group
from tests.support.objects import settings
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.real

POLICY = group_policy(ingress=["web"], egress=["out"])


class Case(NamedTuple):
    """A function that makes an object for a ProxyGroup, the *allowed* ProxyGroup, and the object's kind in words."""

    make: Callable[[str], Object]
    allowed: str
    title: str


CASES = {
    "Ingress": Case(lambda group: ingress("a", proxy_group=group), "web", "Ingress"),
    "load balancer": Case(lambda group: load_balancer("a", proxy_group=group), "web", "exposed Service"),
    "exposed Service": Case(lambda group: exposed("a", proxy_group=group), "web", "exposed Service"),
    "egress Service": Case(lambda group: group_egress("a", group), "out", "egress Service"),
}


async def refusal(world: World, obj: Object) -> str:
    """Create *obj*, and delete it again. Return the API server's reason for a refusal; empty if it accepts *obj*."""
    try:
        await world.apply(obj)
    except Rejected as error:
        return str(error)
    await world.delete(obj)
    await world.eventually(lambda: world.gone(obj))
    return ""


async def in_force(world: World) -> None:
    """Wait until the API server enforces the ProxyGroupPolicies. It reads its admission policies once a second."""
    for case in CASES.values():
        await world.eventually(partial(refusal, world, case.make("other")))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_api_server_refuses_an_object_that_names_a_group_that_is_not_allowed(
    world: World, case: Case
) -> None:
    await world.apply(POLICY)
    await in_force(world)
    (forbidden,) = {"web", "out"} - {case.allowed}
    words = f'tailscale.com/proxy-group of this {case.title} must be "{case.allowed}", or not be set'
    for group in (forbidden, "other", ""):
        assert words in await refusal(world, case.make(group))
    await world.apply(case.make(case.allowed))
    with pytest.raises(Rejected, match=words):
        await world.annotate(case.make(""), {"tailscale.com/proxy-group": forbidden})
    await world.annotate(case.make(""), {"example.org/note": "edited", "tailscale.com/proxy-group": None})


async def test_under_an_empty_policy_the_api_server_refuses_every_object_that_names_a_group(world: World) -> None:
    await world.apply(group_policy())
    await in_force(world)
    for case in CASES.values():
        words = (
            f"tailscale.com/proxy-group of this {case.title} must not be set: the ProxyGroupPolicies of this namespace"
        )
        assert words in await refusal(world, case.make(case.allowed))


async def test_a_proxygrouppolicy_does_not_affect_other_namespaces_or_objects_without_a_group(world: World) -> None:
    await world.apply(group_policy())
    await in_force(world)
    elsewhere = group_egress("elsewhere", "other")
    elsewhere["metadata"]["namespace"] = "tailscale"
    plain = ingress("plain")
    del plain["metadata"]["annotations"]
    assert "annotations" not in backend("plain")["metadata"]
    for obj in (backend("plain"), plain, load_balancer("b"), exposed("b"), elsewhere):
        assert await refusal(world, obj) == ""


async def test_the_operator_can_change_objects_that_are_older_than_the_policy(cluster: World) -> None:
    old = group_egress("old", "other")
    await cluster.apply(old, *admission_policies("default", Allowed(("web",), ("out",)), settings()))
    await in_force(cluster)
    await cluster.apply(POLICY, proxy_group("other"))
    async with running_operator(cluster):
        await cluster.becomes(lambda: cluster.reason(old, "TailscaleEgressSvcReady"), "ReadyToRouteTraffic")
        found = await cluster.look(old)
        assert has_finalizer(found, FINALIZER)
        assert found["spec"]["externalName"] != "placeholder"
        with pytest.raises(Rejected, match="must be"):
            await cluster.annotate(old, {"example.org/note": "edited"})
        await cluster.delete(old)
        await cluster.eventually(lambda: cluster.gone(old))


async def test_admission_policies_let_anybody_complete_a_deletion(cluster: World) -> None:
    old = group_egress("old", "other")
    old["metadata"]["finalizers"] = ["example.org/hold"]
    await cluster.apply(old, *admission_policies("default", Allowed(), settings()))
    await in_force(cluster)
    await cluster.delete(old)
    await cluster.change(old, {"metadata": {"finalizers": None}})
    await cluster.eventually(lambda: cluster.gone(old))
