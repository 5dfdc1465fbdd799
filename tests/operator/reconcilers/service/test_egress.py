"""Which device an egress Service leads to, and how it is pointed at its proxy."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.desired.plan import Patch
from tsoperator.desired.statefulset import EgressByFQDN, EgressByIP, Target
from tsoperator.reconcilers.service import egress

from tests.support.objects import FQDN, egress_service, settings

SETTINGS = settings()
FQDN_KEY = "tailscale.com/tailnet-fqdn"
IP_KEY = "tailscale.com/tailnet-ip"
OLD_IP_KEY = "tailscale.com/ts-tailnet-target-ip"
PROXY = "ts-db-x7k2p"
EXTERNAL_NAME = f"{PROXY}.tailscale.svc.cluster.local"


class Targeted(NamedTuple):
    annotations: dict[str, str]
    target: Target
    name: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Targeted({FQDN_KEY: FQDN}, EgressByFQDN(f"{FQDN}."), FQDN),
        Targeted({FQDN_KEY: f"{FQDN}."}, EgressByFQDN(f"{FQDN}."), FQDN),
        Targeted({IP_KEY: "100.66.66.66"}, EgressByIP("100.66.66.66")),
        Targeted({OLD_IP_KEY: "100.66.66.66"}, EgressByIP("100.66.66.66")),
        Targeted({IP_KEY: "100.66.66.66", OLD_IP_KEY: "100.77.77.77"}, EgressByIP("100.66.66.66")),
    ],
)
def test_the_proxy_goes_where_the_annotation_says(case: Targeted) -> None:
    service = egress_service(case.annotations)
    assert egress.asks(service)
    assert (egress.target(service), egress.magic_dns_name(service)) == (case.target, case.name)


@pytest.mark.parametrize("annotations", [{}, {IP_KEY: "", FQDN_KEY: ""}, {"tailscale.com/expose": "true"}])
def test_a_service_without_a_device_is_none(annotations: dict[str, str]) -> None:
    assert not egress.asks(egress_service(annotations))


class Pointing(NamedTuple):
    spec: Object
    rewritten: bool


@pytest.mark.parametrize(
    "case",
    [
        Pointing({"type": "ExternalName", "externalName": EXTERNAL_NAME}, rewritten=False),
        Pointing({"type": "ExternalName", "externalName": "placeholder"}, rewritten=True),
        Pointing({"type": "ClusterIP", "externalName": EXTERNAL_NAME}, rewritten=True),
        Pointing({"type": "ClusterIP", "clusterIP": "192.0.2.4", "selector": {"app": "db"}}, rewritten=True),
    ],
)
def test_a_service_is_pointed_at_its_proxy_once(case: Pointing) -> None:
    body = {"spec": {"type": "ExternalName", "externalName": EXTERNAL_NAME, "selector": None}}
    patches = [Patch(SERVICE, Key("default", "db"), body)] if case.rewritten else []
    assert egress.rewrite(egress_service(spec=case.spec), PROXY, SETTINGS) == patches


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


def test_a_service_that_is_no_external_name_does_not_point_at_its_proxy() -> None:
    assert not egress.is_rewritten(egress_service({}, spec={"type": "ClusterIP"}), SETTINGS)
