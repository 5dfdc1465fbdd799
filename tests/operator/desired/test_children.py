"""Whose children there are."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import CONFIGMAP, CONNECTOR, DNSCONFIG, PROXYGROUP, SECRET, SERVICE, Key, Object
from tsoperator.api.rules import child_name
from tsoperator.desired.children import (
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
GROUP = Owner("proxygroup", Key("", "db"))


def test_an_owners_labels_are_those_of_the_go_operator() -> None:
    assert OWNER.labels == LABELS
    assert GROUP.labels == {
        "tailscale.com/managed": "true",
        "tailscale.com/parent-resource": "db",
        "tailscale.com/parent-resource-type": "proxygroup",
    }


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        (LABELS, OWNER),
        ({**LABELS, "app": "x"}, OWNER),
        ({**LABELS, "tailscale.com/parent-resource-ns": ""}, Owner("svc", Key("", "db"))),
        ({**LABELS, "tailscale.com/parent-resource-type": "proxygroup"}, Owner("proxygroup", Key("", "db"))),
        ({**LABELS, "tailscale.com/managed": "True"}, None),
        ({name: value for name, value in LABELS.items() if name != "tailscale.com/managed"}, None),
        ({**LABELS, "tailscale.com/parent-resource": ""}, None),
        ({**LABELS, "tailscale.com/proxy-group": "group"}, None),
        ({}, None),
    ],
)
def test_a_child_is_found_by_its_owner(labels: dict[str, str], owner: Owner | None) -> None:
    child = obj(SERVICE, Key("tailscale", "ts-db"), labels=labels)
    assert owner_of(child) == owner
    assert list(by_owner(child)) == ([str(owner)] if owner else [])


def test_a_proxygroups_service_is_found_by_its_parent_and_is_no_child_of_ours() -> None:
    made = obj(SERVICE, Key("tailscale", "ts-db"), labels={**LABELS, "tailscale.com/proxy-group": "group"})
    assert (list(by_owner(made)), list(by_grouped_owner(made))) == ([], [str(OWNER)])
    assert list(by_grouped_owner(obj(SERVICE, Key("tailscale", "ts-db"), labels=LABELS))) == []
    assert is_child(made, "tailscale")
    assert list(owned_keys(made, "svc", "tailscale")) == [OWNER.key]


@pytest.mark.parametrize("labels", [None, {}])
def test_an_object_without_labels_is_nobodys_child(labels: dict[str, str] | None) -> None:
    assert owner_of(obj(SERVICE, Key("tailscale", "x"), labels=labels)) is None


@pytest.mark.parametrize(("owner_type", "keys"), [("svc", [Key("default", "db")]), ("ingress", [])])
def test_a_child_maps_to_a_parent_of_the_kind_asked_for(owner_type: str, keys: list[Key]) -> None:
    child = obj(SERVICE, Key("tailscale", "ts-db"), labels=LABELS)
    assert list(owned_keys(child, owner_type, "tailscale")) == keys


def test_an_object_elsewhere_that_is_labelled_as_a_child_is_nobodys() -> None:
    foreign = obj(SERVICE, Key("default", "ts-db"), labels=LABELS)
    assert not is_child(foreign, "tailscale")
    assert list(owned_keys(foreign, "svc", "tailscale")) == []
    assert list(within("tailscale", by_owner)(foreign)) == []
    assert list(within("default", by_owner)(foreign)) == [str(OWNER)]


def test_of_several_children_the_oldest_that_stays_counts() -> None:
    old, older, new = (
        obj(SERVICE, Key("tailscale", name), creationTimestamp=f"2026-01-0{day}T00:00:00Z")
        for name, day in (("b", 2), ("c", 1), ("a", 3))
    )
    assert first([new, old, deleting(older)]) == old
    assert first([new, deleting(older)]) == new
    assert first([deleting(older)]) == deleting(older)
    assert first([]) is None


def test_children_of_one_age_are_told_apart_by_name() -> None:
    one, other = (obj(SERVICE, Key("tailscale", name)) for name in "ab")
    assert first([other, one]) == first([one, other]) == one


class Marked(NamedTuple):
    metadata: Object
    data: Object | None = None
    ours: bool = True


MARKED = {
    "digest": Marked({"annotations": {"tailscale.com/desired-digest": "d"}}),
    "bookkeeping": Marked({"annotations": {"tailscale.com/magic-dnsname": "db.tail1234.ts.net"}}),
    "managed": Marked({"labels": {"tailscale.com/managed": "true"}}),
    "another's": Marked({"labels": {"tailscale.com/parent-resource": "other"}}),
    "state": Marked({}, {"device_id": "bg=="}),
    "booted": Marked({}, {"pod_uid": "eA==", "tailscale_capver": "MTA3"}),
    "nothing": Marked({}, ours=False),
    "a stranger": Marked({"labels": {"app": "db"}, "annotations": {"a": "b"}}, {"password": "eA=="}, ours=False),
}


@pytest.mark.parametrize("case", MARKED.values(), ids=MARKED)
def test_an_object_of_an_operator_or_a_proxy_is_known(case: Marked) -> None:
    secret = obj(SECRET, Key("tailscale", "ts-db-x7k2p-0"), {"data": case.data} if case.data else {}, **case.metadata)
    assert is_marked(secret) is case.ours


def test_only_a_secret_is_known_by_what_proxies_write() -> None:
    assert not is_marked(obj(CONFIGMAP, Key("tailscale", "a"), {"data": {"device_id": "n"}}))


LONG = "x" * 63


@pytest.mark.parametrize(
    ("name", "parent", "own"),
    [
        ("ts-db-x7k2p", "db", True),
        ("ts-db-x7k2p-0", "db", True),
        ("ts-db-x7k2p-12", "db", True),
        ("ts-db-x7k2p-metrics", "db", True),
        ("ts-db-main-x7k2p", "db", False),
        ("ts-db-main-x7k2p", "db-main", True),
        ("ts-shop-x7k2p", "db", False),
        ("ts-db", "db", False),
        (f"ts-{'x' * 43}-x7k2p", LONG, True),
        (f"ts-{'x' * 42}--x7k2p", f"{'x' * 42}-{LONG}", True),
        ("ts-a-b-x7k2p-0", "a.b", True),
        (f"{child_name(LONG, 'uid')}-0", LONG, True),
        (child_name("a.b", "uid"), "a.b", True),
    ],
)
def test_a_child_is_named_after_its_parent(name: str, parent: str, *, own: bool) -> None:
    assert is_named_after(obj(SECRET, Key("tailscale", name)), parent) is own


def test_children_are_controlled_by_the_dnsconfig() -> None:
    assert owner_reference(DNSCONFIG, "ts-dns", "1234-UID") == {
        "apiVersion": "tailscale.com/v1alpha1",
        "kind": "DNSConfig",
        "name": "ts-dns",
        "uid": "1234-UID",
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Taken(NamedTuple):
    """An object with a name that a group needs, and whether it belongs to somebody else."""

    labels: dict[str, str]
    references: list[Object]
    is_anothers: bool


METRICS = {"tailscale.com/managed": "true", "ts_proxy_type": "proxygroup", "ts_proxy_parent_name": "db"}
BY_GROUP = owner_reference(PROXYGROUP, "db", "former")


@pytest.mark.parametrize(
    "case",
    [
        Taken(GROUP.labels, [BY_GROUP], False),
        Taken(GROUP.labels, [], False),
        Taken({}, [], False),
        Taken(METRICS, [], False),
        Taken(LABELS, [BY_GROUP], False),
        Taken(LABELS, [{**BY_GROUP, "controller": False}], True),
        Taken(LABELS, [], True),
        Taken({**METRICS, "ts_proxy_parent_name": "other"}, [], True),
        Taken(GROUP.labels, [owner_reference(PROXYGROUP, "other", "u")], True),
        Taken(GROUP.labels, [owner_reference(CONNECTOR, "db", "u")], True),
    ],
)
def test_a_child_of_another_parent_belongs_to_it(case: Taken) -> None:
    found = obj(SERVICE, Key("tailscale", "db-metrics"), labels=case.labels, ownerReferences=case.references)
    assert is_anothers(found, GROUP) == case.is_anothers


def test_an_object_in_the_way_is_named() -> None:
    found = obj(SERVICE, Key("tailscale", "db-metrics"))
    assert in_the_way(found).startswith("Service tailscale/db-metrics is in the way: it is not the operator's")
    assert "make this object under another name" in in_the_way(found)
