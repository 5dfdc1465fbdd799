"""The nameserver during an outage of the API server. These tests run last, without fixtures of other tests."""

import signal
from pathlib import Path

import pytest

from tests.e2e.cluster import Answer, Cluster, dig, identity, pod_ip
from tests.e2e.containers import process_of
from tests.e2e.dnsprobe import Probe
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.processes import wait_until
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

TO_THE_POD = ("-p", "1053")
OUTAGE = 6.0  # seconds; in a longer outage the operator would lose its Lease, and its recovery would take as long again


@pytest.fixture
def right(cluster: Cluster, nameserver: str, namespace_left: str) -> Answer:
    """The right answer for the peer's name: the address of the proxy of an egress Service."""
    service = egress_service(namespace_left, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    answer = Answer("NOERROR", (pod_ip(cluster.device_proxy(service)),))
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == answer, f"{PEER_NAME} is {answer}")
    return answer


@pytest.mark.last  # the garbage collector needs most of a minute to recover
def test_the_nameserver_answers_while_the_api_server_is_unreachable(
    cluster: Cluster, nameserver: str, right: Answer, bed: Bed, namespace_left: str, tmp_path: Path
) -> None:
    with Probe.of(bed, nameserver, PEER_NAME, tmp_path) as probe:
        with bed.plane.away():
            assert not wait_until(lambda: len(probe.seen()) > 1, OUTAGE), probe.seen()
        assert [(seen.rcode, tuple(seen.addresses)) for seen in probe.seen()] == [(right.rcode, right.data)]
    cluster.delete("service", "db", namespace_left)
    eventually(lambda: dig(bed, nameserver, PEER_NAME).rcode == "NXDOMAIN", "records are followed again", 90)


@pytest.mark.last
def test_a_nameserver_that_starts_while_the_api_server_is_unreachable_serves_the_newest_records(
    cluster: Cluster, nameserver: str, bed: Bed
) -> None:
    pod = eventually(cluster.nameservers, "a ready Pod of the nameserver")[0]
    process = process_of(pod, "tsnameserver")
    with bed.plane.away():
        before = zone(bed, pod_ip(pod))
        process.send(signal.SIGKILL)
        assert wait_until(lambda: not process.alive, 10)
        eventually(lambda: zone(bed, pod_ip(pod)) == before, "the zone as it was", 30)
        assert server_of(bed, pod_ip(pod)) == pod["metadata"]["name"]
    eventually(lambda: any(identity(pod)[1] for pod in cluster.nameservers()), "a restart", 60)


def zone(bed: Bed, address: str) -> Answer:
    """Return the SOA record with which a nameserver's Pod answers. Its serial shows which records the Pod has."""
    return dig(bed, address, "ts.net", "SOA", *TO_THE_POD)


def server_of(bed: Bed, address: str) -> str:
    """Return the identity of the server that answers (NSID, RFC 5001)."""
    words = ["dig", "+time=1", "+tries=1", "+noall", "+comments", "+nsid", *TO_THE_POD, f"@{address}", "ts.net", "SOA"]
    return bed.machines["node"].run(words, timeout=10).partition("NSID: ")[2].partition('("')[2].partition('")')[0]
