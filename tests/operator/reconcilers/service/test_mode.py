"""What is to serve a Service."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service.mode import Mode, mode_of

from tests.support.objects import FQDN, deleting, egress_service, settings

EGRESS = {"tailscale.com/tailnet-fqdn": FQDN}
EXPOSED = {"tailscale.com/expose": "true"}
GROUP = {"tailscale.com/proxy-group": "g"}
NO_GROUP = {"tailscale.com/proxy-group": ""}
CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}
BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": "192.0.2.4"}
BY_NAME = {"type": "ExternalName", "externalName": "placeholder"}


@pytest.mark.parametrize(
    ("annotations", "spec", "mode"),
    [
        ({}, BY_NAME, Mode.NOTHING),
        (GROUP, BY_NAME, Mode.NOTHING),
        (EGRESS, BY_NAME, Mode.PROXY),
        ({**EGRESS, **GROUP}, BY_NAME, Mode.GROUP),
        ({**EGRESS, **GROUP}, CLUSTER_IP, Mode.GROUP),
        ({**EGRESS, **NO_GROUP}, BY_NAME, Mode.PROXY),
        ({**EGRESS, **EXPOSED, **GROUP}, BY_NAME, Mode.UNSUPPORTED),
        (EXPOSED, CLUSTER_IP, Mode.PROXY),
        ({**EXPOSED, **GROUP}, CLUSTER_IP, Mode.UNSUPPORTED),
        ({}, BALANCED, Mode.PROXY),
        (GROUP, BALANCED, Mode.UNSUPPORTED),
        (NO_GROUP, BALANCED, Mode.PROXY),
        (NO_GROUP, CLUSTER_IP, Mode.NOTHING),
    ],
)
def test_a_service_is_served_as_it_asks(annotations: Object, spec: Object, mode: Mode) -> None:
    service = egress_service(annotations, spec=spec)
    assert mode_of(service, settings()) is mode
    assert mode_of(deleting(service), settings()) is Mode.NOTHING
