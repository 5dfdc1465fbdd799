"""The facts about a ProxyGroup on which the objects that it serves depend."""

from typing import Any

from tsoperator.api.objects import PROXYGROUP, SERVICE, Key, Object
from tsoperator.group import grouptype, proxygroup

from tests.support.objects import obj


def test_the_configmap_name_and_the_labels_of_a_group_equal_those_of_the_go_operator() -> None:
    assert grouptype.EGRESS.config_name("foo") == "foo-egress-config"
    assert grouptype.INGRESS.config_name("foo") == "foo-ingress-config"
    assert proxygroup.group_owner("foo").labels.items() >= {
        ("tailscale.com/managed", "true"),
        ("tailscale.com/parent-resource-type", "proxygroup"),
        ("tailscale.com/parent-resource", "foo"),
    }


def group(spec: object, **conditions: str) -> Object:
    given = [{"type": name, "status": status} for name, status in conditions.items()]
    return obj(PROXYGROUP, Key("", "foo"), {"spec": spec, "status": {"conditions": given}})


def test_a_group_has_two_replicas_unless_its_spec_says_otherwise() -> None:
    counts = {0: 0, 3: 3, 100: 100, 2147483647: 100, None: 2, -1: 2, "x": 2}
    assert {given: proxygroup.replica_count(group({"replicas": given})) for given in counts} == counts
    assert proxygroup.replica_count(group({})) == proxygroup.replica_count(group(None)) == 2


def test_the_name_of_a_groups_type_selects_one_of_three_types_or_none_if_the_name_is_unknown() -> None:
    found = [grouptype.type_of(group({"type": name})) for name in ("egress", "ingress", "kube-apiserver")]
    assert found == [grouptype.EGRESS, grouptype.INGRESS, grouptype.APISERVER]
    others: list[Any] = [{"type": "other"}, {"type": ["egress"]}, {}, None, "x"]
    assert [spec for spec in others if grouptype.type_of(group(spec))] == []


def test_the_condition_of_a_group_says_whether_it_is_available() -> None:
    groups = [group({}, ProxyGroupAvailable="True"), group({}, ProxyGroupAvailable="False")]
    assert [proxygroup.is_available(each) for each in groups] == [True, False]
    assert not proxygroup.is_available(group({}, ProxyGroupReady="True"))
    assert not proxygroup.is_available(obj(PROXYGROUP, Key("", "foo")))


def test_an_index_finds_a_users_service_by_the_group_that_the_service_names() -> None:
    users = [
        obj(SERVICE, Key("default", "db"), annotations={"tailscale.com/proxy-group": name}) for name in ("foo", "")
    ]
    assert [tuple(proxygroup.by_group(each)) for each in users] == [("foo",), ()]
