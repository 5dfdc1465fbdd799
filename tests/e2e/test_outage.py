"""The nameserver while the API server is away: last, with no other test's fixtures about."""

from pathlib import Path

import pytest

from tests.e2e.cluster import Answer, Cluster, dig, pod_ip
from tests.e2e.dnsprobe import Probe
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.processes import wait_until
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

OUTAGE = 20.0  # seconds; an operator loses its Lease, and all back off: the end takes as long again


@pytest.fixture
def right(cluster: Cluster, nameserver: str, namespace_left: str) -> Answer:
    """The right answer for the peer's name, which an egress Service is for."""
    service = egress_service(namespace_left, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    answer = Answer("NOERROR", (pod_ip(cluster.device_proxy(service)),))
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == answer, f"{PEER_NAME} is {answer}")
    return answer


@pytest.mark.last  # the garbage collector takes most of a minute to be itself again
def test_the_nameserver_answers_while_the_api_server_is_away(
    cluster: Cluster, nameserver: str, right: Answer, bed: Bed, namespace_left: str, tmp_path: Path
) -> None:
    with Probe.of(bed, nameserver, PEER_NAME, tmp_path) as probe:
        with bed.plane.away():
            assert not wait_until(lambda: len(probe.seen()) > 1, OUTAGE), probe.seen()
        assert [(seen.rcode, tuple(seen.addresses)) for seen in probe.seen()] == [(right.rcode, right.data)]
    cluster.delete("service", "db", namespace_left)
    eventually(lambda: dig(bed, nameserver, PEER_NAME).rcode == "NXDOMAIN", "records are followed again", 90)
