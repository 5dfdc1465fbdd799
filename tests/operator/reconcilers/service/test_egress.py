"""The device to which an egress Service leads, and the fields that point the Service at its proxy."""

import pytest
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.proxy.proxypod import ProxyPod, egress_to_ip, egress_to_name
from tsoperator.reconcilers.service import egress
from tsoperator.reconcilers.service.ask import Ask, by_destination, parse
from tsoperator.runtime.plan import Patch, Plan
from tsoperator.runtime.reverts import NO_REVERTS, Reverts

from tests.operator.reconcilers.service.specs import FQDN_KEY, GROUP, IP_KEY, OLD_IP_KEY
from tests.support.objects import FQDN, egress_service, held, settings

SETTINGS = settings()
PROXY = "ts-db-x7k2p"
EXTERNAL_NAME = f"{PROXY}.tailscale.svc.cluster.local"


def ask(annotations: Object | None = None, spec: Object | None = None) -> Ask:
    return parse(egress_service(annotations, spec=spec), SETTINGS)


@pytest.mark.parametrize(
    ("annotations", "pod", "name"),
    [
        ({FQDN_KEY: FQDN}, egress_to_name(f"{FQDN}."), FQDN),
        ({FQDN_KEY: f"{FQDN}."}, egress_to_name(f"{FQDN}."), FQDN),
        ({IP_KEY: "100.66.66.66"}, egress_to_ip("100.66.66.66"), ""),
        ({OLD_IP_KEY: "100.66.66.66"}, egress_to_ip("100.66.66.66"), ""),
        ({IP_KEY: "100.66.66.66", OLD_IP_KEY: "100.77.77.77"}, egress_to_ip("100.66.66.66"), ""),
        ({FQDN_KEY: FQDN, OLD_IP_KEY: "100.77.77.77"}, egress_to_ip("100.77.77.77"), ""),
    ],
)
def test_the_proxy_of_an_egress_service_leads_to_the_device_that_the_annotation_names(
    annotations: Object, pod: ProxyPod, name: str
) -> None:
    asked = ask(annotations)
    assert (asked.is_egress, egress.pod(asked), asked.magic_dns_name) == (True, pod, name)


def test_an_index_finds_a_service_by_the_name_or_address_of_its_device() -> None:
    both = {FQDN_KEY: f"{FQDN.upper()}.", OLD_IP_KEY: "FD7A:115C:A1E0:0::9"}
    given: list[Object] = [{FQDN_KEY: f"{FQDN.upper()}."}, both, both | GROUP, {}]
    found = [{*by_destination(egress_service(annotations))} for annotations in given]
    assert found == [{FQDN, "db"}, {"fd7a:115c:a1e0::9"}, {FQDN, "db"}, set()]


def test_a_warning_says_that_an_address_outside_of_the_tailnet_needs_accepted_routes() -> None:
    routed = ask({IP_KEY: "10.1.2.3"})
    assert egress.route_notes(routed, accepts_routes=True) == []
    (note,) = egress.route_notes(routed, accepts_routes=False)
    assert "set tailscale.acceptRoutes: true in a ProxyClass" in note.message
    assert egress.route_notes(ask({OLD_IP_KEY: "10.1.2.3", FQDN_KEY: FQDN}), accepts_routes=False)
    for annotations in ({IP_KEY: "100.64.0.9"}, {FQDN_KEY: FQDN}):
        assert egress.route_notes(ask(annotations), accepts_routes=False) == []


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
    asked = parse(held(egress_service(spec=spec)), SETTINGS)
    version = {"resourceVersion": asked.service["metadata"]["resourceVersion"]}  # a newer change is not overwritten
    body = {"metadata": version, "spec": {"type": "ExternalName", "externalName": EXTERNAL_NAME, "selector": None}}
    assert egress.strays(asked, PROXY) == fields
    patches = [Patch(SERVICE, Key("default", "db"), body)] if fields else []
    assert [*egress.pointed(asked, PROXY, Plan(), NO_REVERTS).steps] == patches
    assert egress.pointed(asked, "", Plan(), NO_REVERTS) == Plan()


def test_the_message_about_reverts_of_a_service_says_how_to_end_the_reverts() -> None:
    told = egress.overwritten(Reverts(("spec.externalName", "spec.type"), "argocd-controller"), PROXY)
    for words in (
        "argocd-controller keeps setting spec.externalName and spec.type back",
        PROXY,
        "leave spec.type, spec.externalName and spec.selector out",
        "RespectIgnoreDifferences=true",
        "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent",
    ):
        assert words in told


def test_the_external_name_tells_whether_a_service_points_at_its_own_proxy() -> None:
    for name, ours in (
        (EXTERNAL_NAME, True),
        ("ts-db-main-x7k2p.tailscale.svc.cluster.local", False),
        ("ts-db-x7k2p.other.svc.cluster.local", False),
        ("ts-db-x7k2p.tailscale.svc.k8s.example.org", False),
        ("db.tailscale.svc.cluster.local", False),
        ("db.example.org", False),
    ):
        pointed, other = [ask({}, {"type": type_, "externalName": name}) for type_ in ("ExternalName", "ClusterIP")]
        assert [each.points_at_own_proxy for each in (pointed, other)] == [ours, False]
