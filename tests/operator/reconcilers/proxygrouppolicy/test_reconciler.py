"""ProxyGroupPolicies on a cluster: the operator makes admission policies that enforce them."""

import json
from collections.abc import Sequence
from contextlib import suppress

import pytest
from clustersim.faults import Ban
from clustersim.objects import ADMISSIONBINDING as SIM_BINDING
from clustersim.objects import ADMISSIONPOLICY as SIM_POLICY
from clustersim.objects import PROXYGROUPPOLICY as SIM_GROUPPOLICY
from clustersim.sim import SimOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from tsoperator.api.objects import ADMISSIONBINDING, ADMISSIONPOLICY, PROXYGROUPPOLICY, Object, Resource, uid
from tsoperator.kube.errors import AlreadyExists

from tests.support import patient
from tests.support.manifests import group_policy, proxy_group
from tests.support.operator import World, meant, new_world, running_operator

TEAM = "team"
ENFORCED = "ProxyGroupPolicyEnforced"
LOOK_AGAIN = 70.0
"""Seconds within which the operator finds kinds that were missing or hidden before."""
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


@pytest.fixture
async def teams(cluster: World) -> World:
    """A cluster with another namespace of users, on which no operator runs yet."""
    with suppress(AlreadyExists):
        await cluster.api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    return cluster


async def reason(world: World, policy: Object) -> str:
    return await world.reason(policy, "ProxyGroupPolicyReady")


async def message(world: World, policy: Object) -> str:
    condition = await world.condition(policy, "ProxyGroupPolicyReady")
    return condition.message if condition else ""


async def enforced(world: World, namespace: str = "default") -> dict[str, list[str]]:
    """Return a map with the ProxyGroups that *namespace* is allowed to use for ``ingress`` and for ``egress``.

    A use without limits is not in the map.
    """
    found = {}
    for use in ("ingress", "egress"):
        name = f"ts-{use}-{namespace}"
        policy = await world.find(ADMISSIONPOLICY, name, "")
        binding = await world.find(ADMISSIONBINDING, name, "")
        if policy and binding:
            (literal,) = {each["expression"].rpartition(" in ")[2] for each in policy["spec"]["validations"]}
            found[use] = json.loads(literal)
        elif policy or binding:
            found[use] = ["only one of the two is there"]
    return found


async def test_a_policy_is_enforced_and_names_missing_groups_until_they_exist(world: World) -> None:
    mine = group_policy(ingress=["web"])
    await world.apply(mine)
    await world.becomes(lambda: reason(world, mine), "ProxyGroupNotFound")
    assert "are missing: web. Create them" in await message(world, mine)
    await world.becomes(lambda: enforced(world), {"ingress": ["web"], "egress": []})
    await world.apply(group := proxy_group("web", type="ingress"))
    await world.becomes(lambda: reason(world, mine), ENFORCED)
    await world.becomes(lambda: world.reason(group, "ProxyGroupReady"), "ProxyGroupReady")
    assert not await world.writes_when_left_alone()
    await world.delete(group)
    await world.becomes(lambda: reason(world, mine), "ProxyGroupNotFound")
    await world.delete(mine)
    await world.becomes(lambda: enforced(world), {})


Step = tuple[str, str, Sequence[str], bool]
"""A step of a user: the verb, a policy's name, its groups, and whether the user waits after the step."""

STEPS: Sequence[Step] = [
    ("apply", "x", ["a"], False),
    ("apply", "y", ["b", "a"], True),
    ("delete", "x", [], True),
    ("apply", "z", [], False),
    ("change", "y", ["c"], False),
    ("apply", "x", ["d"], True),
    ("delete", "y", [], False),
]


async def union_after(steps: Sequence[Step]) -> None:
    """Carry out *steps*, and check that the union of the remaining policies is enforced.

    After that, delete the remaining policies, and check that nothing is enforced any more.
    """
    async with new_world() as world, running_operator(world):
        there: dict[str, list[str]] = {}
        for verb, name, groups, waits in steps:
            policy = group_policy(name, ingress=[*groups], egress=[*groups[:1]])
            if verb == "delete" and name in there:
                del there[name]
                await world.delete(policy)
            elif verb != "delete":
                await (world.change(policy, {"spec": policy["spec"]}) if name in there else world.apply(policy))
                there[name] = [*groups]
            if waits:
                await world.settled()
        ingress = sorted({each for groups in there.values() for each in groups})
        egress = sorted({groups[0] for groups in there.values() if groups})
        await world.becomes(lambda: enforced(world), {"ingress": ingress, "egress": egress} if there else {})
        assert not await world.writes_when_left_alone()
        await world.delete(*(group_policy(name) for name in there))
        await world.becomes(lambda: enforced(world), {})


def test_the_union_of_the_groups_in_the_remaining_proxygrouppolicies_is_enforced() -> None:
    patient.run(union_after(STEPS))


@pytest.mark.thorough
@settings(max_examples=200 if settings.get_current_profile_name() == "soak" else 20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["apply", "change", "delete"]),
            st.sampled_from("xyz"),
            st.lists(st.sampled_from("abcd"), max_size=3),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_the_union_of_the_groups_in_all_proxygrouppolicies_is_enforced_after_any_steps(steps: list[Step]) -> None:
    patient.run(union_after(steps))


def go_objects(namespace: str = "default") -> list[Object]:
    """Return the admission policies of the Go operator 1.102.5 for a namespace that can use only the group ``web``."""
    made: list[Object] = []
    for use, groups in (("ingress", ["networking.k8s.io", ""]), ("egress", [""])):
        name = f"ts-{use}-{namespace}"
        rules = [
            {
                "apiGroups": [group],
                "apiVersions": ["v1" if group == "" else "*"],
                "resources": ["ingresses" if group else "services"],
                "operations": ["CREATE", "UPDATE"],
            }
            for group in groups
        ]
        annotation = 'object.metadata.annotations["tailscale.com/proxy-group"]'
        expression = f'!("tailscale.com/proxy-group" in object.metadata.annotations) || {annotation} in ["web"]'
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression, "message": "no"} for _ in groups],
        }
        selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
        for resource, spec in ((ADMISSIONPOLICY, policy), (ADMISSIONBINDING, binding)):
            head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
            made.append({**head, "spec": spec})
    return made


async def test_the_go_operators_admission_policies_are_taken_over_in_place(cluster: World) -> None:
    theirs, mine = go_objects(), group_policy(ingress=["web"], egress=["out"])
    await cluster.apply(*theirs, mine)
    before = [uid(await cluster.look(each)) for each in theirs]
    async with running_operator(cluster):
        await cluster.becomes(lambda: reason(cluster, mine), "ProxyGroupNotFound")
        await cluster.becomes(lambda: enforced(cluster), {"ingress": ["web"], "egress": ["out"]})
        assert [uid(await cluster.look(each)) for each in theirs] == before
        assert not await cluster.writes_when_left_alone()
        await cluster.delete(mine)
        await cluster.becomes(lambda: enforced(cluster), {})


async def test_a_new_operator_deletes_the_admission_policies_of_a_namespace_without_proxygrouppolicies(
    cluster: World,
) -> None:
    stranger = go_objects("other")[0]
    stranger["metadata"]["name"] = "other"
    await cluster.apply(*go_objects(), stranger)
    async with running_operator(cluster):
        await cluster.becomes(lambda: enforced(cluster), {})
        assert not await cluster.gone(stranger)
    await cluster.delete(stranger)


async def test_a_namespace_that_is_not_watched_keeps_its_admission_policies(teams: World) -> None:
    theirs, ours = go_objects(), group_policy(namespace=TEAM)
    await teams.apply(*theirs, group_policy(ingress=["other"]), ours)
    before = [meant(await teams.look(each)) for each in theirs]
    async with running_operator(teams, watch_namespaces=(TEAM,)):
        await teams.becomes(lambda: reason(teams, ours), ENFORCED)
        await teams.delete(group_policy())
        assert not await teams.writes_when_left_alone()
        assert [meant(await teams.look(each)) for each in theirs] == before
    async with running_operator(teams):
        await teams.becomes(lambda: enforced(teams), {})
        await teams.delete(ours)
        await teams.becomes(lambda: enforced(teams, TEAM), {})


@pytest.mark.simulated
async def test_a_namespace_keeps_its_admission_policies_while_rbac_hides_its_proxygrouppolicies(
    teams: World,
) -> None:
    mine = group_policy(namespace=TEAM, egress=["out"])
    teams.sim.faults.forbid(Ban(PROXYGROUPPOLICY.plural, TEAM))
    teams.sim.store.create(SIM_GROUPPOLICY, mine)
    await teams.apply(*go_objects(TEAM))
    async with running_operator(teams, watch_namespaces=(TEAM,)):
        assert not await teams.writes_when_left_alone()
        assert await enforced(teams, TEAM) == {"ingress": ["web"], "egress": ["web"]}
        teams.sim.faults.clear()
        await teams.becomes(lambda: enforced(teams, TEAM), {"ingress": [], "egress": ["out"]}, timeout=LOOK_AGAIN)


@pytest.mark.simulated
async def test_a_namespace_keeps_its_admission_policies_while_the_crd_of_proxygrouppolicies_is_missing(
    cluster: World,
) -> None:
    await cluster.apply(*go_objects())
    cluster.sim.kinds.withdraw(SIM_GROUPPOLICY)
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
        assert await enforced(cluster) == {"ingress": ["web"], "egress": ["web"]}


ABSENT = frozenset({ADMISSIONPOLICY.plural, ADMISSIONBINDING.plural})


@pytest.mark.simulated
def test_a_policy_has_a_condition_about_an_old_api_server_until_the_api_server_is_updated() -> None:
    patient.run(updated())


async def updated() -> None:
    """Check that a policy is enforced as soon as an update gives the API server admission policies.

    The operator runs before and after the update.
    """
    async with new_world(SimOptions(absent=ABSENT)) as world, running_operator(world):
        mine = group_policy()
        await world.apply(mine)
        await world.becomes(lambda: reason(world, mine), "AdmissionPoliciesUnsupported")
        assert "Kubernetes 1.30" in await message(world, mine)
        assert not await world.writes_when_left_alone()
        for kind in (SIM_POLICY, SIM_BINDING):
            world.sim.kinds.serve(kind)
        await world.becomes(lambda: reason(world, mine), ENFORCED, timeout=LOOK_AGAIN)


@pytest.mark.simulated
async def test_a_policy_reports_that_the_operator_cannot_see_admission_policies_until_rbac_allows_it(
    cluster: World,
) -> None:
    mine = group_policy()
    cluster.sim.faults.forbid(Ban(ADMISSIONBINDING.plural))
    await cluster.apply(mine)
    async with running_operator(cluster):
        await cluster.becomes(lambda: reason(cluster, mine), "ProxyGroupPolicyFailed")
        assert "ClusterRole" in await message(cluster, mine)
        cluster.sim.faults.clear()
        await cluster.becomes(lambda: reason(cluster, mine), ENFORCED, timeout=LOOK_AGAIN)


async def test_a_binding_of_somebody_else_stays_and_the_condition_of_the_policy_names_the_binding(
    cluster: World,
) -> None:
    mine, theirs = group_policy(), go_objects()[1]
    theirs["spec"]["policyName"] = "other"
    await cluster.apply(theirs, mine)
    before = meant(await cluster.look(theirs))
    async with running_operator(cluster):
        await cluster.becomes(lambda: reason(cluster, mine), "ProxyGroupPolicyFailed")
        assert "PolicyBinding ts-ingress-default is somebody else's: it binds" in await message(cluster, mine)
        assert meant(await cluster.look(theirs)) == before
        await cluster.delete(theirs)
        await cluster.becomes(lambda: reason(cluster, mine), ENFORCED)
        await cluster.delete(mine)
        await cluster.becomes(lambda: enforced(cluster), {})
