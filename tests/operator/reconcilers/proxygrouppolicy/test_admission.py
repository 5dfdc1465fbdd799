"""The admission policies of a namespace."""

import json
from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.proxygrouppolicy.admission import admission_policies
from tsoperator.reconcilers.proxygrouppolicy.ask import Allowed
from tsoperator.runtime.diff import digest_of, write_for

from tests.support.objects import settings, stored

NONE = Allowed()
SOME = Allowed(("a", "b"), ("c",))


def made(allowed: Allowed) -> list[Object]:
    return [*admission_policies("team", allowed, settings())]


def test_a_namespace_has_an_admission_policy_and_a_binding_for_ingress_and_for_egress() -> None:
    ingress, ingress_binding, egress, egress_binding = made(SOME)
    for policy, binding, name in (
        (ingress, ingress_binding, "ts-ingress-team"),
        (egress, egress_binding, "ts-egress-team"),
    ):
        assert {each["metadata"]["name"] for each in (policy, binding)} == {binding["spec"]["policyName"]} == {name}
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert json.dumps({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team"]}) in json.dumps(
            binding
        )
    for policy, rules, validations in ((ingress, ["ingresses", "services"], 2), (egress, ["services"], 1)):
        found = policy["spec"]["matchConstraints"]["resourceRules"]
        assert [resource for rule in found for resource in rule["resources"]] == rules
        assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in found)
        assert len(policy["spec"]["validations"]) == validations


@pytest.mark.parametrize(
    ("allowed", "literal", "words"),
    [
        (("b", "a"), '["b", "a"]', 'must be "b" or "a", or not be set'),
        ((), "[]", "must not be set"),
        (('"] || true || "x" in ["',), r'["\"] || true || \"x\" in [\""]', r'must be "\"] ||'),
        (("two\nlines", "🙂"), r'["two\nlines", "🙂"]', r'must be "two\nlines" or "🙂"'),
    ],
    ids=["names", "no names", "a name that would end the literal", "names in other characters"],
)
def test_the_expressions_and_the_messages_of_admission_policies_name_the_allowed_groups(
    allowed: tuple[str, ...], literal: str, words: str
) -> None:
    for policy in made(Allowed(allowed, allowed))[::2]:
        for validation in policy["spec"]["validations"]:
            assert validation["expression"].endswith(f" in {literal}")
            assert words in validation["message"]
            assert "\n" not in validation["message"]


DRIFTS: dict[str, tuple[int, Object]] = {
    "a selector of the binding": (1, {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
    "a selector of objects": (1, {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}),
    "an exception of the binding": (1, {"matchResources": {"excludeResourceRules": [{"resources": ["services"]}]}}),
    "a parameter": (1, {"paramRef": {"name": "a"}}),
    "a selector of the policy": (0, {"matchConstraints": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
    "an exception of the policy": (0, {"matchConstraints": {"excludeResourceRules": [{"resources": ["services"]}]}}),
    "a condition": (0, {"matchConditions": [{"name": "never", "expression": "false"}]}),
    "a rule for named objects": (0, {"matchConstraints": {"resourceRules": [{"resourceNames": ["a"]}, {}]}}),
    "a policy that fails open": (0, {"failurePolicy": "Ignore"}),
}


@pytest.mark.parametrize(("index", "drift"), DRIFTS.values(), ids=DRIFTS)
def test_every_edit_of_admission_policies_that_could_allow_other_groups_is_reverted(index: int, drift: Object) -> None:
    desired = made(SOME)[index]
    annotations = {"tailscale.com/desired-digest": digest_of(desired)}
    live = stored({**desired, "spec": without_null(desired["spec"])}, annotations=annotations)
    assert write_for(desired, live) is None
    changed = {**live, "spec": merged(live["spec"], drift)}
    assert (write_for(desired, changed) or {}).get("spec") == desired["spec"]


def without_null(value: Any) -> Any:
    """Return *value* as the API server stores it: without fields that are null, and with empty selectors."""
    if isinstance(value, dict):
        return {name: without_null(each) for name, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value


def merged(value: Any, change: Any) -> Any:
    if isinstance(value, dict) and isinstance(change, dict):
        return {**value, **{name: merged(value.get(name), each) for name, each in change.items()}}
    if isinstance(value, list) and isinstance(change, list) and len(value) == len(change):
        return [merged(*pair) for pair in zip(value, change, strict=True)]
    return change
