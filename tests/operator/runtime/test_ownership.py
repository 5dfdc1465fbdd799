"""The owners of children, by the children's labels."""

import pytest
from tsoperator.api.objects import CONFIGMAP, CONNECTOR, DNSCONFIG, PROXYGROUP, SECRET, SERVICE, Key, Object
from tsoperator.api.rules import child_name
from tsoperator.runtime.ownership import (
    Owner,
    by_grouped_owner,
    by_owner,
    first,
    in_the_way,
    is_anothers,
    is_child,
    is_marked,
    is_named_after,
    owned_keys,
    owner_of,
    owner_reference,
    parent_title,
    within,
)

from tests.support.objects import deleting, obj

LABELS = {
    "tailscale.com/managed": "true",
    "tailscale.com/parent-resource": "db",
    "tailscale.com/parent-resource-ns": "default",
    "tailscale.com/parent-resource-type": "svc",
}
OWNER = Owner("svc", Key("default", "db"))
WITHOUT_NAMESPACE = [Owner(kind, Key("", "db")) for kind in ("proxygroup", "peerrelay")]
GROUP = WITHOUT_NAMESPACE[0]
RECORDER = Owner("recorder", Key("", "rec"))


def test_the_labels_for_the_children_of_an_owner_are_those_of_the_go_operator() -> None:
    without = {name: value for name, value in LABELS.items() if name != "tailscale.com/parent-resource-ns"}
    assert OWNER.labels == LABELS
    for owner in WITHOUT_NAMESPACE:
        assert owner.labels == without | {"tailscale.com/parent-resource-type": owner.type}
    assert RECORDER.labels == {
        "app.kubernetes.io/name": "recorder",
        "app.kubernetes.io/instance": "rec",
        "app.kubernetes.io/managed-by": "tailscale-operator",
    }


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        (LABELS, OWNER),
        ({**LABELS, "app": "x"}, OWNER),
        ({**LABELS, "tailscale.com/parent-resource-ns": ""}, Owner("svc", Key("", "db"))),
        ({**LABELS, "tailscale.com/parent-resource-type": "proxygroup"}, Owner("proxygroup", Key("", "db"))),
        (RECORDER.labels, RECORDER),
        ({**RECORDER.labels, **LABELS}, OWNER),
        ({**RECORDER.labels, "app.kubernetes.io/managed-by": "Helm"}, None),
        ({**RECORDER.labels, "app.kubernetes.io/instance": ""}, None),
        ({**LABELS, "tailscale.com/managed": "True"}, None),
        ({name: value for name, value in LABELS.items() if name != "tailscale.com/managed"}, None),
        ({**LABELS, "tailscale.com/parent-resource": ""}, None),
        ({**LABELS, "tailscale.com/proxy-group": "group"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_child_is_found_by_the_owner_that_its_labels_name(labels: dict[str, str] | None, owner: Owner | None) -> None:
    child = obj(SERVICE, Key("tailscale", "ts-db"), labels=labels)
    assert owner_of(child) == owner
    assert list(by_owner(child)) == ([str(owner)] if owner else [])


def test_a_child_with_the_label_of_a_proxygroup_is_found_only_by_the_index_of_grouped_owners() -> None:
    made = obj(SERVICE, Key("tailscale", "ts-db"), labels={**LABELS, "tailscale.com/proxy-group": "group"})
    assert (list(by_owner(made)), list(by_grouped_owner(made))) == ([], [str(OWNER)])
    assert list(by_grouped_owner(obj(SERVICE, Key("tailscale", "ts-db"), labels=LABELS))) == []
    assert is_child(made, "tailscale")
    assert list(owned_keys(made, "svc", "tailscale")) == [OWNER.key]


def test_owned_keys_finds_a_parent_of_the_wanted_kind_for_a_child_in_the_operators_namespace() -> None:
    child, foreign = (obj(SERVICE, Key(namespace, "ts-db"), labels=LABELS) for namespace in ("tailscale", "default"))
    assert [list(owned_keys(child, kind, "tailscale")) for kind in ("svc", "ingress")] == [[OWNER.key], []]
    assert list(owned_keys(foreign, "svc", "tailscale")) == []
    of_recorder = {**Owner("recorder", Key("", "rec")).labels, "tailscale.com/parent-resource-type": "svc"}
    recorders = obj(SERVICE, Key("tailscale", "rec"), labels=of_recorder)
    assert [list(owned_keys(recorders, kind, "tailscale")) for kind in ("recorder", "svc")] == [[Key("", "rec")], []]
    assert (is_child(child, "tailscale"), is_child(foreign, "tailscale")) == (True, False)
    assert list(within("tailscale", by_owner)(foreign)) == []
    assert list(within("default", by_owner)(foreign)) == [str(OWNER)]


def test_of_several_children_the_oldest_one_that_is_not_being_deleted_is_used() -> None:
    old, older, new = (
        obj(SERVICE, Key("tailscale", name), creationTimestamp=f"2026-01-0{day}T00:00:00Z")
        for name, day in (("b", 2), ("c", 1), ("a", 3))
    )
    assert first([new, old, deleting(older)]) == old
    assert first([new, deleting(older)]) == new
    assert first([deleting(older)]) == deleting(older)
    assert first([]) is None
    one, other = (obj(SERVICE, Key("tailscale", name)) for name in "ab")
    assert first([other, one]) == first([one, other]) == one


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        ({"annotations": {"tailscale.com/desired-digest": "d"}}, {}),
        ({"annotations": {"tailscale.com/magic-dnsname": "db.tail1234.ts.net"}}, {}),
        ({"labels": {"tailscale.com/managed": "true"}}, {}),
        ({"labels": {"tailscale.com/parent-resource": "other"}}, {}),
        ({"labels": RECORDER.labels}, {}),
        ({}, {"device_id": "bg=="}),
        ({}, {"pod_uid": "eA==", "tailscale_capver": "MTA3"}),
    ],
)
def test_an_object_with_the_marks_of_an_operator_or_a_proxy_is_recognized(metadata: Object, data: Object) -> None:
    assert is_marked(obj(SECRET, Key("tailscale", "ts-db-x7k2p-0"), {"data": data} if data else {}, **metadata))


def test_an_object_without_the_marks_of_an_operator_or_a_proxy_is_not_recognized() -> None:
    others = {"labels": {"app": "db"}, "annotations": {"a": "b"}}
    assert not is_marked(obj(SECRET, Key("tailscale", "a")))
    assert not is_marked(obj(SECRET, Key("tailscale", "a"), {"data": {"password": "eA=="}}, **others))
    assert not is_marked(obj(CONFIGMAP, Key("tailscale", "a"), {"data": {"device_id": "n"}}))


LONG = "x" * 63
NAMES = {
    "db": ["ts-db-x7k2p", "ts-db-x7k2p-0", "ts-db-x7k2p-12", "ts-db-x7k2p-metrics"],
    "db-main": ["ts-db-main-x7k2p"],
    LONG: [f"ts-{'x' * 43}-x7k2p", f"{child_name(LONG, 'uid')}-0"],
    f"{'x' * 42}-{LONG}": [f"ts-{'x' * 42}--x7k2p"],
    "a.b": ["ts-a-b-x7k2p-0", child_name("a.b", "uid")],
}


@pytest.mark.parametrize(("parent", "names"), NAMES.items())
def test_the_name_of_a_child_begins_with_the_name_of_its_parent(parent: str, names: list[str]) -> None:
    others = ["ts-db-main-x7k2p", "ts-shop-x7k2p", "ts-db"] if parent == "db" else []
    owner = Owner("svc", Key("default", parent))
    found = [is_named_after(obj(SECRET, Key("tailscale", name)), owner) for name in [*names, *others]]
    assert found == [True] * len(names) + [False] * len(others)


def test_the_name_of_a_peerrelays_child_begins_with_the_name_of_the_peerrelay() -> None:
    names = ["peerrelay-db", "peerrelay-db-0", "peerrelay-db-12-config"]
    others = ["peerrelay-db-config", "peerrelay-db-main-0", "peerrelay-dba-0", "ts-db-x7k2p-0", "db-0"]
    owner = Owner("peerrelay", Key("", "db"))
    found = [is_named_after(obj(SECRET, Key("tailscale", name)), owner) for name in [*names, *others]]
    assert found == [True] * len(names) + [False] * len(others)


def test_the_owner_reference_of_a_child_makes_the_dnsconfig_the_controller() -> None:
    parent = {"apiVersion": "tailscale.com/v1alpha1", "kind": "DNSConfig", "name": "ts-dns", "uid": "1234-UID"}
    found = owner_reference(DNSCONFIG, "ts-dns", "1234-UID")
    assert found == {**parent, "controller": True, "blockOwnerDeletion": True}


METRICS = {"tailscale.com/managed": "true", "ts_proxy_type": "proxygroup", "ts_proxy_parent_name": "db"}
BY_GROUP = owner_reference(PROXYGROUP, "db", "former")


@pytest.mark.parametrize(
    ("labels", "references", "anothers"),
    [
        (GROUP.labels, [BY_GROUP], False),
        (GROUP.labels, [], False),
        ({}, [], False),
        (METRICS, [], False),
        (LABELS, [BY_GROUP], False),
        (LABELS, [{**BY_GROUP, "controller": False}], True),
        (LABELS, [], True),
        ({**METRICS, "ts_proxy_parent_name": "other"}, [], True),
        (GROUP.labels, [owner_reference(PROXYGROUP, "other", "u")], True),
        (GROUP.labels, [owner_reference(CONNECTOR, "db", "u")], True),
    ],
)
def test_a_child_belongs_to_the_parent_in_its_owner_reference_or_else_to_the_one_in_its_labels(
    labels: dict[str, str], references: list[Object], *, anothers: bool
) -> None:
    found = obj(SERVICE, Key("tailscale", "db-metrics"), labels=labels, ownerReferences=references)
    assert is_anothers(found, GROUP) is anothers


def test_the_message_about_a_foreign_object_names_the_object_and_says_what_to_do() -> None:
    found = obj(SERVICE, Key("tailscale", "db-metrics"))
    assert in_the_way(found).startswith("Service tailscale/db-metrics is in the way: it is not the operator's")
    assert "make this object under another name" in in_the_way(found)


@pytest.mark.parametrize(
    ("owner", "named"),
    [
        (Owner("ingress", Key("default", "web")), "Ingress default/web"),
        (Owner("connector", Key("", "router")), "Connector router"),
        (Owner("proxygroup", Key("", "pg")), "ProxyGroup pg"),
        (Owner("recorder", Key("", "r")), "Recorder r"),
    ],
)
def test_messages_about_a_child_name_its_parent_if_it_has_one(owner: Owner, named: str) -> None:
    assert parent_title({"kind": "Secret", "metadata": {"name": "x", "labels": owner.labels}}) == named
    assert parent_title({"kind": "Secret", "metadata": {"namespace": "tailscale", "name": "x"}}) == "Secret tailscale/x"
