"""What is to serve a Service."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service.mode import Mode, mode_of

from tests.operator.reconcilers.service.specs import BY_NAME, CLUSTER_IP, EGRESS, EXPOSE, GROUP, LOAD_BALANCER, NO_GROUP
from tests.support.objects import deleting, egress_service, settings


@pytest.mark.parametrize(
    ("annotations", "spec", "mode"),
    [
        ({}, BY_NAME, Mode.NOTHING),
        (GROUP, BY_NAME, Mode.NOTHING),
        (EGRESS, BY_NAME, Mode.PROXY),
        (EGRESS | GROUP, BY_NAME, Mode.GROUP),
        (EGRESS | GROUP, CLUSTER_IP, Mode.GROUP),
        (EGRESS | NO_GROUP, BY_NAME, Mode.PROXY),
        (EGRESS | EXPOSE | GROUP, BY_NAME, Mode.UNSUPPORTED),
        (EXPOSE, CLUSTER_IP, Mode.PROXY),
        (EXPOSE | GROUP, CLUSTER_IP, Mode.UNSUPPORTED),
        ({}, LOAD_BALANCER, Mode.PROXY),
        (GROUP, LOAD_BALANCER, Mode.UNSUPPORTED),
        (NO_GROUP, LOAD_BALANCER, Mode.PROXY),
        (NO_GROUP, CLUSTER_IP, Mode.NOTHING),
    ],
)
def test_a_service_is_served_as_it_asks(annotations: Object, spec: Object, mode: Mode) -> None:
    service = egress_service(annotations, spec=spec)
    assert (mode_of(service, settings()), mode_of(deleting(service), settings())) == (mode, Mode.NOTHING)
