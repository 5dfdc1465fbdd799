"""The parsed requests of a Service: whether a group or its own proxy serves it, and its target."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.group.clusterip import Target
from tsoperator.group.ports import Wanted
from tsoperator.reconcilers.service.ask import ServiceMode, parse

from tests.operator.reconcilers.service.specs import (
    BY_NAME,
    CLUSTER_IP,
    EGRESS,
    EXPOSE,
    FQDN_KEY,
    GROUP,
    IP_KEY,
    LOAD_BALANCER,
    NO_GROUP,
    OLD_IP_KEY,
)
from tests.support.objects import FQDN, deleting, egress_service, settings


@pytest.mark.parametrize(
    ("annotations", "spec", "mode"),
    [
        ({}, BY_NAME, ServiceMode.NOTHING),
        (GROUP, BY_NAME, ServiceMode.NOTHING),
        (EGRESS, BY_NAME, ServiceMode.PROXY),
        (EGRESS | GROUP, BY_NAME, ServiceMode.GROUP),
        (EGRESS | GROUP, CLUSTER_IP, ServiceMode.GROUP),
        (EGRESS | NO_GROUP, BY_NAME, ServiceMode.PROXY),
        (EGRESS | EXPOSE | GROUP, BY_NAME, ServiceMode.HOSTED),
        (EXPOSE, CLUSTER_IP, ServiceMode.PROXY),
        (EXPOSE | GROUP, CLUSTER_IP, ServiceMode.HOSTED),
        ({}, LOAD_BALANCER, ServiceMode.PROXY),
        (GROUP, LOAD_BALANCER, ServiceMode.HOSTED),
        (NO_GROUP, LOAD_BALANCER, ServiceMode.PROXY),
        (NO_GROUP, CLUSTER_IP, ServiceMode.NOTHING),
    ],
)
def test_the_annotations_and_the_spec_of_a_service_decide_how_it_is_served(
    annotations: Object, spec: Object, mode: ServiceMode
) -> None:
    service = egress_service(annotations, spec=spec)
    assert tuple(parse(each, settings()).mode for each in (service, deleting(service))) == (mode, ServiceMode.NOTHING)


def test_the_target_of_a_service_has_the_name_or_address_exactly_as_in_the_annotation() -> None:
    for annotations, wanted in (
        ({FQDN_KEY: f"{FQDN}."}, Target(f"{FQDN}.", "")),
        ({IP_KEY: "100.64.0.1"}, Target("", "100.64.0.1")),
        ({OLD_IP_KEY: "100.64.0.2"}, Target("", "100.64.0.2")),
        ({FQDN_KEY: FQDN, IP_KEY: "100.64.0.1"}, Target(FQDN, "")),
        ({FQDN_KEY: FQDN, OLD_IP_KEY: "100.64.0.2"}, Target("", "100.64.0.2")),
        ({FQDN_KEY: FQDN, OLD_IP_KEY: "100.64.0.2"} | GROUP, Target(FQDN, "")),
    ):
        assert parse(egress_service(annotations), settings()).target == wanted


def test_a_service_leads_to_its_target_unless_the_service_is_exposed() -> None:
    leading, exposed = (parse(egress_service(EGRESS, spec=spec), settings()) for spec in (BY_NAME, LOAD_BALANCER))
    assert (leading.destination, exposed.destination) == (FQDN, "")


def test_the_ports_of_a_service_keep_the_names_of_the_user_and_are_tcp_by_default() -> None:
    service = egress_service(spec={"ports": [{"port": 5432}, {"port": 53, "protocol": "UDP", "name": "dns"}]})
    named = {Wanted("TCP", 5432): "tailscale-unnamed", Wanted("UDP", 53): "dns"}
    assert [*parse(service, settings()).ports.items()] == [*named.items()]
