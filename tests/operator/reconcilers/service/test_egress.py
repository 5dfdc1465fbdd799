"""Which device an egress Service leads to, and how it is pointed at its proxy."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.desired.plan import Patch
from tsoperator.desired.proxypod import ProxyPod, egress_to_ip, egress_to_name
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.rewrites import Reverts

from tests.support.objects import FQDN, egress_service, settings

SETTINGS = settings()
FQDN_KEY = "tailscale.com/tailnet-fqdn"
IP_KEY = "tailscale.com/tailnet-ip"
OLD_IP_KEY = "tailscale.com/ts-tailnet-target-ip"
PROXY = "ts-db-x7k2p"
EXTERNAL_NAME = f"{PROXY}.tailscale.svc.cluster.local"


class Targeted(NamedTuple):
    annotations: dict[str, str]
    pod: ProxyPod
    name: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Targeted({FQDN_KEY: FQDN}, egress_to_name(f"{FQDN}."), FQDN),
        Targeted({FQDN_KEY: f"{FQDN}."}, egress_to_name(f"{FQDN}."), FQDN),
        Targeted({IP_KEY: "100.66.66.66"}, egress_to_ip("100.66.66.66")),
        Targeted({OLD_IP_KEY: "100.66.66.66"}, egress_to_ip("100.66.66.66")),
        Targeted({IP_KEY: "100.66.66.66", OLD_IP_KEY: "100.77.77.77"}, egress_to_ip("100.66.66.66")),
        Targeted({FQDN_KEY: FQDN, OLD_IP_KEY: "100.77.77.77"}, egress_to_ip("100.77.77.77")),
    ],
)
def test_the_proxy_goes_where_the_annotation_says(case: Targeted) -> None:
    service = egress_service(case.annotations)
    assert egress.asks(service)
    assert (egress.pod(service), egress.magic_dns_name(service)) == (case.pod, case.name)


@pytest.mark.parametrize(
    ("annotations", "keys"),
    [
        ({FQDN_KEY: f"{FQDN.upper()}."}, {FQDN, "db"}),
        ({IP_KEY: "FD7A:115C:A1E0:0::9"}, {"fd7a:115c:a1e0::9"}),
        ({}, set()),
    ],
)
def test_a_service_is_found_by_the_device_that_it_leads_to(annotations: dict[str, str], keys: set[str]) -> None:
    assert {*egress.by_destination(egress_service(annotations))} == keys


@pytest.mark.parametrize(
    ("annotations", "accepts", "lacks"),
    [
        ({IP_KEY: "10.1.2.3"}, False, True),
        ({IP_KEY: "10.1.2.3"}, True, False),
        ({IP_KEY: "100.64.0.9"}, False, False),
        ({OLD_IP_KEY: "10.1.2.3", FQDN_KEY: FQDN}, False, True),
        ({FQDN_KEY: FQDN}, False, False),
    ],
)
def test_an_address_elsewhere_needs_a_route(annotations: dict[str, str], accepts: bool, lacks: bool) -> None:
    service = egress_service(annotations)
    assert egress.lacks_route(service, accepts_routes=accepts) is lacks
    if lacks:
        assert "set tailscale.acceptRoutes: true in a ProxyClass" in egress.routes_not_accepted(service)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"type": "ExternalName", "externalName": EXTERNAL_NAME}, []),
        ({"type": "ExternalName", "externalName": "placeholder"}, ["spec.externalName"]),
        ({"type": "ClusterIP", "externalName": EXTERNAL_NAME}, ["spec.type"]),
        ({"clusterIP": "192.0.2.4", "selector": {"app": "db"}}, ["spec.externalName", "spec.type"]),
    ],
)
def test_a_service_with_fields_that_lead_elsewhere_is_pointed_at_its_proxy(spec: Object, fields: list[str]) -> None:
    service = egress_service(spec=spec)
    body = {"spec": {"type": "ExternalName", "externalName": EXTERNAL_NAME, "selector": None}}
    assert egress.strays(service, PROXY, SETTINGS) == fields
    patches = [Patch(SERVICE, Key("default", "db"), body)] if fields else []
    assert egress.rewrite(service, PROXY, SETTINGS) == patches


def test_reverts_are_told_with_what_ends_them() -> None:
    told = egress.overwritten(Reverts(("spec.externalName", "spec.type"), "argocd-controller"), PROXY)
    for words in (
        "argocd-controller keeps setting spec.externalName and spec.type back",
        PROXY,
        "leave spec.type, spec.externalName and spec.selector out",
        "RespectIgnoreDifferences=true",
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent",
    ):
        assert words in told


def managed(manager: str, time: str, *fields: str) -> Object:
    """An entry of managedFields."""
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}}}


@pytest.mark.parametrize(
    ("entries", "writer"),
    [
        ([], ""),
        ([managed("tsoperator", "2026-01-01T00:00:03Z", "externalName")], ""),
        ([managed("kubectl-edit", "2026-01-01T00:00:03Z", "ports"), {"manager": "kubelet"}], ""),
        (
            [
                managed("kubectl-client-side-apply", "2026-01-01T00:00:01Z", "externalName", "type"),
                managed("argocd-controller", "2026-01-01T00:00:02Z", "externalName"),
                managed("tsoperator", "2026-01-01T00:00:03Z", "type"),
            ],
            "argocd-controller",
        ),
        ([managed("kustomize-controller", "2026-01-01T00:00:01Z", "type")], "kustomize-controller"),
    ],
)
def test_the_last_writer_of_where_a_service_points_is_found(entries: list[Object], writer: str) -> None:
    assert egress.last_writer(egress_service(managedFields=entries)) == writer
    assert egress.last_writer(egress_service()) == ""


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (EXTERNAL_NAME, True),
        ("ts-db-main-x7k2p.tailscale.svc.cluster.local", False),
        ("ts-db-x7k2p.other.svc.cluster.local", False),
        ("ts-db-x7k2p.tailscale.svc.k8s.example.org", False),
        ("db.tailscale.svc.cluster.local", False),
        ("db.example.org", False),
    ],
)
def test_a_service_that_points_at_its_own_proxy_is_known(name: str, ours: bool) -> None:
    service = egress_service({}, spec={"type": "ExternalName", "externalName": name})
    assert egress.is_rewritten(service, SETTINGS) is ours
    assert not egress.is_rewritten(egress_service({}, spec={"type": "ClusterIP", "externalName": name}), SETTINGS)
