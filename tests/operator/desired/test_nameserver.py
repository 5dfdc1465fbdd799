"""What the nameserver's objects have in common."""

from tsoperator.api.objects import DNSCONFIG
from tsoperator.desired.nameserver import elected, nameserver_labels, owner_reference

from tests.support.objects import deleting, dnsconfig

OLD = dnsconfig("b", creationTimestamp="2026-01-01T00:00:00Z")
NEW = dnsconfig("a", creationTimestamp="2026-01-02T00:00:00Z")


def test_the_oldest_dnsconfig_counts() -> None:
    assert elected([NEW, OLD]) == elected([OLD, NEW]) == OLD


def test_of_the_same_second_the_first_name_counts() -> None:
    twin = dnsconfig("a", creationTimestamp="2026-01-01T00:00:00Z")
    assert elected([OLD, twin]) == elected([twin, OLD]) == twin


def test_one_that_goes_does_not_count() -> None:
    assert elected([deleting(OLD), NEW]) == NEW
    assert elected([deleting(OLD)]) is None
    assert elected([]) is None


def test_the_labels_carry_the_childrens_own_namespace() -> None:
    assert nameserver_labels("ts-dns", "tailscale") == {
        "tailscale.com/managed": "true",
        "tailscale.com/parent-resource": "ts-dns",
        "tailscale.com/parent-resource-ns": "tailscale",
        "tailscale.com/parent-resource-type": "nameserver",
        "app.kubernetes.io/name": "tailscale",
        "app.kubernetes.io/component": "nameserver",
    }


def test_children_are_controlled_by_the_dnsconfig() -> None:
    assert owner_reference(DNSCONFIG, "ts-dns", "1234-UID") == {
        "apiVersion": "tailscale.com/v1alpha1",
        "kind": "DNSConfig",
        "name": "ts-dns",
        "uid": "1234-UID",
        "controller": True,
        "blockOwnerDeletion": True,
    }
