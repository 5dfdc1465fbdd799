"""The plan for a namespace: its admission policies, and the conditions of its ProxyGroupPolicies."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tsoperator.api.objects import PROXYGROUPPOLICY, Key, Object, key_of
from tsoperator.reconcilers.proxygrouppolicy import plan as decisions
from tsoperator.reconcilers.proxygrouppolicy.admission import admission_policies
from tsoperator.reconcilers.proxygrouppolicy.ask import Allowed
from tsoperator.reconcilers.proxygrouppolicy.plan import Observed
from tsoperator.runtime.plan import Child, Deletion, Plan, Refusal

from tests.support.objects import obj, settings, stored

GROUPS = {"a": "ingress", "b": "ingress", "c": "egress"}


def policy(name: str = "mine", **spec: object) -> Object:
    return obj(PROXYGROUPPOLICY, Key("team", name), {"spec": spec}, generation=3)


def plan(*policies: Object, groups: Mapping[str, str] = GROUPS) -> Plan:
    return decisions.plan(Observed("team", policies, groups=groups), settings())


def written(made: Plan) -> list[Object]:
    return [step.obj for step in made.steps if isinstance(step, Child)]


def told(made: Plan) -> dict[str, tuple[str, str, str]]:
    """Return the status, the reason and the message of each policy's condition, by the name of the policy."""
    found = {}
    for report in made.reports:
        assert report.status is not None
        (condition,) = report.status["conditions"]
        assert (condition["type"], condition["observedGeneration"]) == ("ProxyGroupPolicyReady", 3)
        found[key_of(report.obj).name] = (condition["status"], condition["reason"], condition["message"])
    return found


@pytest.mark.parametrize(
    ("policies", "allowed"),
    [
        ([policy()], Allowed()),
        ([policy(ingress=["b", "a", "b"], egress=["c"])], Allowed(("a", "b"), ("c",))),
        (
            [policy("x", ingress=["b"]), policy("y", ingress=["a", "b"], egress=["a"]), policy("z")],
            Allowed(("a", "b"), ("a",)),
        ),
    ],
    ids=["nothing is allowed", "one policy", "several policies"],
)
def test_a_namespace_can_use_each_group_that_any_of_its_policies_allows(
    policies: list[Object], allowed: Allowed
) -> None:
    made = plan(*policies)
    assert written(made) == [*admission_policies("team", allowed, settings())]
    assert {key_of(each).name: "ProxyGroupPolicyEnforced" for each in policies} == {
        name: reason for name, (_, reason, _) in told(made).items()
    }


def test_a_policy_that_names_missing_groups_is_enforced_and_reports_the_missing_groups() -> None:
    made = plan(policy("x", ingress=["a", "other"], egress=["other", "third"]), policy("y", egress=["a"]))
    assert written(made) == [*admission_policies("team", Allowed(("a", "other"), ("a", "other", "third")), settings())]
    status, reason, message = told(made)["x"]
    assert (status, reason) == ("False", "ProxyGroupNotFound")
    assert "enforced" in message
    assert "missing: other, third. Create them" in message
    assert all("there are no patterns" in told(plan(policy(egress=[each])))["mine"][2] for each in ("*", "team-*"))
    assert "there are no patterns" not in message
    assert told(made)["y"][0] == "True"


def test_a_policy_warns_that_it_names_groups_of_another_type() -> None:
    (report,) = plan(policy(ingress=["a", "c"], egress=["c"])).reports
    told_of = "ProxyGroup c in spec.ingress is of type egress, so it is of no use there: name one of type ingress"
    assert [(note.reason, told_of in note.message) for note in report.notes] == [("IgnoredField", True)]
    assert told(Plan(reports=[report]))["mine"][:2] == ("True", "ProxyGroupPolicyEnforced")
    assert told_of in told(Plan(reports=[report]))["mine"][2]


LEFT = [stored(each) for each in admission_policies("team", Allowed(), settings())]
BAD: dict[str, tuple[Observed, str, str]] = {
    "an old API server": (Observed("team", [policy()], serves_admission=False), "AdmissionPoliciesUnsupported", "1.30"),
    "no rights": (
        Observed("team", [policy()], admission=LEFT, sees_admission=False),
        "ProxyGroupPolicyFailed",
        "ClusterRole",
    ),
    "an invalid spec": (
        Observed("team", [policy(ingress="a")], admission=LEFT),
        "ProxyGroupPolicyInvalid",
        "spec.ingress must be a list",
    ),
}


@pytest.mark.parametrize(("observed", "reason", "words"), BAD.values(), ids=BAD)
def test_a_policy_that_cannot_be_enforced_changes_nothing_and_says_how_to_go_on(
    observed: Observed, reason: str, words: str
) -> None:
    made = decisions.plan(observed, settings())
    assert not made.steps
    status, given, message = told(made)["mine"]
    assert (status, given) == ("False", reason)
    assert words in message
    assert [(note.type, note.reason) for report in made.reports for note in report.notes] == [("Warning", reason)]


def test_an_invalid_policy_blocks_changes_in_its_namespace_and_the_other_policies_name_the_invalid_one() -> None:
    made = plan(policy("bad", egress="a"), policy("good", egress=["a"]))
    assert not made.steps
    assert told(made)["good"][:2] == ("False", "ProxyGroupPolicyInvalid")
    assert "until you have mended the invalid ProxyGroupPolicy bad" in told(made)["good"][2]


def test_the_admission_policies_are_deleted_when_the_namespace_has_no_proxygrouppolicy_left() -> None:
    made = decisions.plan(Observed("team", admission=LEFT), settings())
    assert [step.obj for step in made.steps if isinstance(step, Deletion)] == LEFT


def test_nothing_changes_in_a_namespace_whose_policies_the_operator_cannot_see() -> None:
    for policies in ([], [policy(egress=["a"])]):
        observed = Observed("team", policies, sees_policies=False, admission=LEFT)
        assert decisions.plan(observed, settings()) == Plan(requeue_after=60)


def test_a_binding_of_somebody_else_stays_when_the_namespace_has_no_proxygrouppolicy_left() -> None:
    theirs = stored({**LEFT[1], "spec": {**LEFT[1]["spec"], "policyName": "other"}})
    made = decisions.plan(Observed("team", admission=[LEFT[0], theirs]), settings())
    assert [step.obj for step in made.steps if isinstance(step, Deletion)] == LEFT[:1]


def test_each_proxygrouppolicy_reports_why_the_api_server_refuses_the_admission_policies() -> None:
    error = ValueError("422")
    observed = Observed("team", [policy("x"), policy("y")])
    made = decisions.failed(observed, Refusal("too long: make it shorter", error=error))
    assert told(made) == dict.fromkeys("xy", ("False", "ProxyGroupPolicyFailed", "too long: make it shorter"))
    assert made == replace(made, error=error)
