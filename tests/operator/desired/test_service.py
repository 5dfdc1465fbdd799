"""The headless Service in front of a proxy."""

from tsoperator.api.objects import Key
from tsoperator.desired.children import Owner
from tsoperator.desired.service import headless_service

OWNER = Owner("svc", Key("default", "db"))
KEY = Key("tailscale", "ts-db-abcde")


def test_it_has_no_address_and_no_ports_and_selects_the_parents_pods() -> None:
    assert headless_service(KEY, OWNER, "1234-UID") == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "tailscale", "name": "ts-db-abcde", "labels": OWNER.labels},
        "spec": {"clusterIP": "None", "selector": {"app": "1234-UID"}, "ipFamilyPolicy": "PreferDualStack"},
    }


def test_with_a_magic_dns_name_it_carries_the_go_operators_bookkeeping() -> None:
    metadata = headless_service(KEY, OWNER, "1234-UID", "db.tail1234.ts.net")["metadata"]
    assert metadata["annotations"] == {"tailscale.com/magic-dnsname": "db.tail1234.ts.net"}
    assert metadata["finalizers"] == ["tailscale.com/dns-records-reconciler"]
