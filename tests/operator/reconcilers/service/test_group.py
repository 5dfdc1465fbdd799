"""What is left of Services that a ProxyGroup serves."""

from dataclasses import replace

import pytest
from tsoperator.api.names import DNS_FINALIZER, FINALIZER
from tsoperator.api.objects import SERVICE, Key, Object, is_deleting, key_of
from tsoperator.desired.children import Owner
from tsoperator.desired.plan import Deletion, Plan
from tsoperator.desired.proxy import Children, plan_removal
from tsoperator.reconcilers.service.group import without_the_groups

from tests.support.objects import deleting, deletions_of, egress_service, headless, held, slim_secret

OWNER = Owner("svc", Key("default", "db"))
PLAIN = held(egress_service())
GROUPED = held(egress_service({"tailscale.com/tailnet-fqdn": "db.tail1234.ts.net", "tailscale.com/proxy-group": "g"}))
MADE = headless(OWNER, "db-uid", "ts-db-x", labels={**OWNER.labels, "tailscale.com/proxy-group": "g"})
OURS = Children(secrets=[slim_secret("ts-db-0", {"device_id": "n1"}, OWNER.labels)])


def step(service: Object, children: Children) -> Plan:
    """The step of removal of what is ours."""
    return without_the_groups(service, children, plan_removal(OWNER, children))


def test_our_proxy_of_a_service_that_has_gone_to_a_proxygroup_goes_with_our_finalizer() -> None:
    assert step(GROUPED, OURS) == plan_removal(OWNER, OURS)
    assert step(GROUPED, OURS).release == FINALIZER


def test_where_nothing_tells_whose_the_finalizer_is_it_stays_until_the_service_is_deleted() -> None:
    told = {**GROUPED, "status": {"conditions": [{"type": "TailscaleProxyReady", "status": "True"}]}}
    assert (step(GROUPED, Children()).release, step(told, Children()).release) == ("", FINALIZER)
    assert step(deleting(GROUPED), Children()).release
    assert step(PLAIN, Children()).release


@pytest.mark.parametrize("service", [GROUPED, PLAIN, deleting(GROUPED), deleting(PLAIN)])
def test_a_proxygroups_service_stays_and_the_finalizer_with_it(service: Object) -> None:
    left = step(service, replace(OURS, grouped=[MADE]))
    assert (left.release, [key_of(each.obj).name for each in deletions_of(left)]) == ("", ["ts-db-0"])
    assert [note.reason for note in left.notes] == ["ProxyGroupUnsupported"] * is_deleting(service)


def test_a_service_that_waits_says_what_for_and_how_to_end_it() -> None:
    (note,) = step(deleting(GROUPED), Children(grouped=[MADE])).notes
    for part in (
        "ProxyGroup 'g'",
        "delete Service tailscale/ts-db-x",
        "entry default-db of ConfigMap tailscale/g-egress",
    ):
        assert part in note.message


def test_a_proxygroups_service_goes_where_it_is_deleted() -> None:
    going = deleting(MADE)
    assert deletions_of(step(GROUPED, Children(grouped=[going]))) == [Deletion(SERVICE, going, release=DNS_FINALIZER)]
