"""The ServiceAccount, the Role and the Secrets of a ProxyGroup."""

from typing import Any

import pytest
from tsoperator.api.objects import SECRET, Object, key_of
from tsoperator.group.proxygroup import in_order
from tsoperator.proxy.account import account
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.tailscaled import config_files
from tsoperator.proxy.workload import secret_steps
from tsoperator.reconcilers.proxygroup.children import rules
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.runtime.diff import metadata_patch
from tsoperator.runtime.plan import Creation, Patch, Step

from tests.operator.reconcilers.proxygroup.groups import OWNED, OWNER, config, joined, live_group, proxy_of, secrets
from tests.support.objects import deleting, pod, slim_secret, texts

PROXY = proxy_of(live_group(), Observed(Children()))
LIST = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "get"]}


def test_the_service_account_of_a_group_has_the_right_to_use_the_secrets_of_the_replicas() -> None:
    own, role, binding = account(PROXY, rules("foo", [1, 0]))
    names = ["foo-0-config", "foo-0", "foo-1-config", "foo-1"]
    use = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get", "patch", "update"]}
    assert own.keys() == {"apiVersion", "kind", "metadata"}
    assert role["rules"] == [LIST, use, EVENTS]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "foo"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "foo", "namespace": "tailscale"}]
    metadata = {"namespace": "tailscale", "name": "foo", "labels": OWNER.labels, **OWNED}
    assert [each["metadata"] for each in (own, role, binding)] == [metadata] * 3


def test_the_role_of_a_group_without_replicas_has_no_rule_that_would_match_all_secrets() -> None:
    assert rules("foo", ()) == [LIST, EVENTS]


def test_the_secrets_of_replicas_are_ordered_by_ordinal() -> None:
    named = ["foo-10", "foo-2-config", "foo-2", "foo-x", "foo", "bar-1", "foo-1-other", "a-foo-1"]
    found = in_order([slim_secret(name, {}) for name in named], "foo")
    assert [key_of(each).name for each in found] == ["foo-2", "foo-2-config", "foo-10"]
    assert in_order([pod("foo-1", "p")], "foo") == [pod("foo-1", "p")]


def steps(found: list[Object], keys: Keys = NO_KEYS) -> list[Step]:
    return list(secret_steps(PROXY, Children(secrets=found), keys))


def test_a_new_replica_of_a_group_gets_its_secrets_and_a_lost_state_secret_is_created_again() -> None:
    config_secret, state = [step.obj for step in steps(joined(0), Keys({1: "key"})) if isinstance(step, Creation)]
    for made, name, type_ in ((config_secret, "foo-1-config", "config"), (state, "foo-1", "state")):
        labels = {**OWNER.labels, "tailscale.com/secret-type": type_}
        assert made["metadata"] == {"namespace": "tailscale", "name": name, "labels": labels, **OWNED}
        assert made["type"] == "Opaque"
    assert texts(config_secret) == config_files(config(1), "key")
    assert "data" not in state
    (lost,) = steps([*joined(0)[1:], *joined(1)])
    assert isinstance(lost, Creation)
    assert lost.obj["metadata"]["name"] == "foo-0"


PLAIN, KEYED = config_files(config(0)), config_files(config(0), "new")
OTHER = {**PLAIN, "cap-107.hujson": "{}", "cap-120.hujson": "{}"}
NEWEST = {**PLAIN, "cap-107.hujson": None, "cap-120.hujson": None}
LABELS = {**OWNER.labels, "tailscale.com/secret-type": "config"}


def with_config(data: dict[str, str]) -> list[Object]:
    """Return the Secrets of a replica that has joined, with *data* in its config Secret."""
    state, found = joined(0)
    made = slim_secret("foo-0-config", data, LABELS)
    return [state, {**made, "metadata": found["metadata"]}]


def gone(patch: Patch) -> dict[str, None]:
    return {name: None for name, value in patch.body["data"].items() if value is None and name.startswith("cap-")}


CONFIGS: dict[str, tuple[list[Object], dict[str, Any], str]] = {
    "right": (joined(0), {}, ""),
    "key not used yet": (secrets(0, "new"), {}, ""),
    "key given": (secrets(0), {"foo-0-config": KEYED}, "new"),
    "key used": (with_config(KEYED), {"foo-0-config": PLAIN}, ""),
    "configs for other images": (with_config(OTHER), {"foo-0-config": NEWEST}, ""),
    "leaving": ([deleting(each) for each in with_config(OTHER)], {}, ""),
}


@pytest.mark.parametrize(("found", "files", "auth_key"), CONFIGS.values(), ids=CONFIGS)
def test_the_config_secrets_of_a_group_get_new_auth_keys_and_lose_used_keys_and_old_files(
    found: list[Object], files: dict[str, Any], auth_key: str
) -> None:
    patches = [step for step in steps([*found, *joined(1)], Keys({0: auth_key})) if isinstance(step, Patch)]
    assert {patch.key.name: {**texts(patch.body), **gone(patch)} for patch in patches} == files
    assert all(patch.resource == SECRET for patch in patches)


def test_the_operator_puts_lost_labels_and_owners_back_on_the_secrets_of_a_group() -> None:
    bare = [{**each, "metadata": {**each["metadata"], "labels": {"a": "b"}}} for each in joined(0)]
    found = {step.key.name: step.body for step in steps([*bare, *joined(1)]) if isinstance(step, Patch)}
    assert found == {
        f"foo-0{suffix}": {"metadata": {"labels": {**OWNER.labels, "tailscale.com/secret-type": type_}}}
        for suffix, type_ in (("", "state"), ("-config", "config"))
    }


(OURS,) = OWNED["ownerReferences"]
FORMER = {**OURS, "uid": "former"}
LEASE = {"kind": "Lease", "name": "x", "uid": "y"}


@pytest.mark.parametrize(
    ("references", "written"),
    [([OURS, LEASE], None), ([LEASE], [LEASE, OURS]), ([FORMER], [OURS])],
    ids=["ours", "none of ours", "of a former group of this name"],
)
def test_a_secret_whose_owner_is_not_the_group_gets_the_group_as_its_owner(
    references: list[Object], written: list[Object] | None
) -> None:
    (state, _) = joined(0)
    live = {**state, "metadata": {**state["metadata"], "ownerReferences": references}}
    expected = {"ownerReferences": written, "resourceVersion": "1"} if written else {}
    assert metadata_patch(live, state) == expected
