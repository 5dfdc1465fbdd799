"""The objects that have a name in the cluster's DNS, and the addresses of the names."""

from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.dns.clusternames import Leads, Naming, Way, name_notes, names_ingresses, naming

from tests.support.objects import egress_service, live_dnsconfig, live_ingress

CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}
BALANCED = {**CLUSTER_IP, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}
EXTERNAL = {"type": "ExternalName", "externalName": "db.example.org"}
ONLY_TAILNET = "TLS ends at its proxy, which takes connections from the tailnet only"
NO_ADDRESS = "it has no cluster IP that the name could lead to"


def service(spec: Object, **annotations: str) -> Object:
    return egress_service(
        {f"tailscale.com/{name.replace('_', '-')}": value for name, value in annotations.items()}, spec=spec
    )


@pytest.mark.parametrize(
    ("way", "obj", "wanted"),
    [
        (Way.EGRESS, service(EXTERNAL), Naming(Leads.PROXY)),
        (Way.EGRESS_GROUP, service(EXTERNAL), Naming(Leads.GROUP)),
        (Way.INGRESS, live_ingress(), Naming(Leads.PROXY)),
        (Way.FORWARDED, service(CLUSTER_IP), Naming(Leads.BACKEND)),
        (Way.FORWARDED, service(BALANCED, funnel="true"), Naming(Leads.BACKEND)),
        (Way.FORWARDED, service({**CLUSTER_IP, "clusterIP": "2001:db8::4"}), Naming(Leads.BACKEND)),
        (Way.FORWARDED, service({**CLUSTER_IP, "clusterIP": "None"}), Naming(None)),
        (Way.FORWARDED, service({**CLUSTER_IP, "clusterIP": ""}), Naming(None)),
        (Way.FORWARDED, service({"type": "ClusterIP"}), Naming(None)),
        (Way.FORWARDED, service(EXTERNAL), Naming(None, NO_ADDRESS, "db.example.org")),
        (Way.TLS_SERVICE, service(BALANCED), Naming(None, ONLY_TAILNET, "db.default.svc")),
    ],
)
def test_the_way_and_the_type_of_an_object_decide_to_which_addresses_its_name_leads(
    way: Way, obj: Object, wanted: Naming
) -> None:
    assert naming(obj, way) == wanted


@pytest.mark.parametrize("way", Way)
def test_an_object_has_no_name_if_its_annotation_says_so(way: Way) -> None:
    assert naming(service(BALANCED, cluster_dns="false"), way) == Naming(None)
    named = [naming(service(BALANCED, cluster_dns=value), way) for value in ("true", "False", "")]
    assert named == [naming(service(BALANCED), way)] * 3


def test_an_object_without_a_name_gets_an_event_with_the_reason_unless_its_user_knows_the_reason() -> None:
    (note,) = name_notes(Naming(None, NO_ADDRESS, "db.example.org"))
    assert (note.type, note.reason, note.once) == ("Normal", "NoClusterName", True)
    assert note.message == (
        f"Pods can't use its name of the tailnet, because {NO_ADDRESS}: let them use db.example.org, or set annotation "
        'tailscale.com/cluster-dns to "false" if none needs the name'
    )
    assert name_notes(Naming(None)) == name_notes(Naming(Leads.PROXY)) == []


def dnsconfig(created: str, cluster_dns: object = None, **metadata: Any) -> Object:
    found = live_dnsconfig(f"from-{created}", creationTimestamp=created, **metadata)
    return {**found, "spec": {**found["spec"], "clusterDNS": cluster_dns}} if cluster_dns is not None else found


NAMED = {"ingressNames": True}


@pytest.mark.parametrize(
    ("dnsconfigs", "named"),
    [
        ([], False),
        ([dnsconfig("1")], False),
        ([dnsconfig("1", {})], False),
        ([{**dnsconfig("1"), "spec": None}], False),
        ([dnsconfig("1", {"ingressNames": False})], False),
        ([dnsconfig("1", NAMED)], True),
        ([dnsconfig("1", {**NAMED, "mode": "Unknown"})], True),
        ([dnsconfig("2", NAMED), dnsconfig("1")], False),
        ([dnsconfig("2", NAMED), dnsconfig("1", deletionTimestamp="3")], True),
    ],
)
def test_the_dnsconfig_in_force_decides_whether_pods_can_use_the_names_of_ingresses(
    dnsconfigs: list[Object], named: bool
) -> None:
    assert names_ingresses(dnsconfigs) is named
