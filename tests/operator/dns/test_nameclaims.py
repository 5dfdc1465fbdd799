"""The claims of objects to names, and the winner if several objects ask for one name."""

from typing import Any

import pytest
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.dns.nameclaims import Claim, Standing, asked_name, egress_claim, holding, noted_claim, taken_notes
from tsoperator.proxy.service import headless_service
from tsoperator.runtime.ownership import Owner

from tests.support.objects import FQDN, deleting, egress_service, headless, live_ingress, stored

EGRESS = {"tailscale.com/tailnet-fqdn": FQDN}
GROUP = EGRESS | {"tailscale.com/proxy-group": "egress"}
OLD, YOUNG = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
SQL = {"type": "ExternalName", "ports": [{"port": 5432}, {"port": 53, "protocol": "UDP"}]}
SQL_PORTS = frozenset({("TCP", 5432), ("UDP", 53)})
PLACED = {"tailscale.com/proxy-group": "egress", "tailscale.com/svc-type": "egress"}


def claim(standing: Standing, created: str, name: str) -> Claim:
    return Claim(standing, created, Owner("svc", Key("default", name)))


def shown(service: Object, kind: str, status: str, reason: str) -> Object:
    return {**service, "status": {"conditions": [{"type": kind, "status": status, "reason": reason}]}}


def test_a_name_goes_to_the_parent_of_its_device_or_else_to_its_holder_or_else_to_the_oldest_object() -> None:
    ranked = [
        claim(Standing.DEVICE, YOUNG, "device"),
        claim(Standing.HOLDS, YOUNG, "holder"),
        claim(Standing.ASKS, OLD, "b"),
        claim(Standing.ASKS, YOUNG, "a"),
        claim(Standing.ASKS, YOUNG, "b"),
        claim(Standing.LEFT, OLD, "invalid"),
    ]
    assert [holding(ranked[start:][::-1]) for start in range(len(ranked))] == ranked


@pytest.mark.parametrize(
    ("service", "name"),
    [
        (egress_service(), FQDN),
        (egress_service({"tailscale.com/tailnet-fqdn": f"{FQDN.upper()}."}), FQDN),
        (egress_service({"tailscale.com/tailnet-ip": "100.64.0.9"}), ""),
        (egress_service(EGRESS | {"tailscale.com/cluster-dns": "false"}), ""),
        (deleting(egress_service()), ""),
        (shown(egress_service(), "TailscaleProxyReady", "False", "ProxyInvalid"), ""),
        (shown(egress_service(), "TailscaleProxyReady", "False", "ProxyPending"), FQDN),
        (shown(egress_service(GROUP), "TailscaleEgressSvcValid", "False", "EgressSvcInvalid"), ""),
        (shown(egress_service(GROUP), "TailscaleEgressSvcValid", "Unknown", "ProxyGroupNotReady"), FQDN),
        (shown(egress_service(GROUP), "TailscaleProxyReady", "False", "ProxyInvalid"), FQDN),
    ],
)
def test_a_service_that_is_invalid_or_being_deleted_does_not_ask_for_the_name_of_its_device(
    service: Object, name: str
) -> None:
    assert asked_name(service) == name


def test_a_service_at_a_group_claims_a_name_for_its_ports_and_a_service_with_its_own_proxy_for_all_ports() -> None:
    asking = [egress_service(given, spec=SQL, creationTimestamp=OLD) for given in (GROUP, EGRESS)]
    owner = Owner("svc", Key("default", "db"))
    claims = [Claim(Standing.ASKS, OLD, owner, ports) for ports in (SQL_PORTS, None)]
    assert [egress_claim(each, Standing.ASKS) for each in asking] == claims


PARENT = egress_service(spec=SQL, creationTimestamp=OLD)
OWNER = Owner("svc", key_of(PARENT))
IN_FRONT = headless(OWNER, "uid", "ts-db", FQDN, creationTimestamp=YOUNG)
AT_GROUP = {**IN_FRONT, "metadata": {**IN_FRONT["metadata"], "labels": OWNER.labels | PLACED}}
WITH_PORTS = {**AT_GROUP, "spec": {"ports": [*SQL["ports"], {"name": "tailscale-health-check", "port": 9002}]}}
FORWARDING = stored(headless_service(Key("tailscale", "ts-db"), OWNER, "uid", FQDN, "192.0.2.4"))
OF_INGRESS = headless(Owner("ingress", Key("default", "web")), "uid", "ts-web", FQDN)


@pytest.mark.parametrize(
    ("child", "parent", "standing", "created", "ports"),
    [
        (IN_FRONT, PARENT, Standing.HOLDS, OLD, None),
        (AT_GROUP, PARENT, Standing.HOLDS, OLD, SQL_PORTS),
        (IN_FRONT, egress_service({}), Standing.LEFT, "", None),
        (IN_FRONT, None, Standing.HOLDS, YOUNG, None),
        (WITH_PORTS, None, Standing.HOLDS, YOUNG, SQL_PORTS),
        (FORWARDING, egress_service({}), Standing.DEVICE, "", None),
        (OF_INGRESS, live_ingress(), Standing.DEVICE, "", None),
    ],
)
def test_a_parent_holds_its_noted_name_while_it_asks_for_the_name_or_is_in_an_unwatched_namespace(
    child: Object, parent: Object | None, standing: Standing, created: str, ports: Any
) -> None:
    found = noted_claim(child, parent, FQDN)
    assert (found.standing, found.created, found.ports) == (standing, created, ports)


def test_the_event_about_a_taken_name_says_who_holds_it_and_which_other_name_pods_can_use() -> None:
    (note,) = taken_notes(PARENT, claim(Standing.HOLDS, OLD, "older"))
    assert (note.type, note.reason, note.once) == ("Warning", "ClusterNameTaken", True)
    assert note.message.startswith(
        f"Pods that use the name {FQDN} get to Service default/older, which had the name first and forwards other "
        "ports: let them use db.default.svc to get to this Service, or set annotation tailscale.com/cluster-dns"
    )
    (note,) = taken_notes(PARENT, Claim(Standing.DEVICE, OLD, Owner("ingress", Key("default", "web"))))
    assert "get to Ingress default/web, whose own device has that name: let" in note.message
    assert taken_notes(PARENT, None) == []
