"""A DNSConfig that names the image of the Go operator's nameserver, which serves the records of our operator."""

from collections.abc import Iterator

import pytest

from tests.e2e import go_operator
from tests.e2e.changeover import nameserver_runs, records
from tests.e2e.cluster import Answer, Cluster, Object, dig, pod_ip
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

DNSCONFIG: Object = {"kind": "DNSConfig", "metadata": {"name": "ts-dns"}}
LOST = "NameserverComplete"


@pytest.fixture
def go_nameserver(cluster: Cluster, nameserver: str, images: ProductImages) -> Iterator[str]:
    """A DNSConfig with the image of the Go operator's nameserver. At the end, the DNSConfig gets our image back."""
    image = go_operator.push_nameserver(cluster.bed)
    repository, _, tag = image.rpartition(":")
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"image": {"repo": repository, "tag": tag}}}})
    yield image
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"image": None}}})
    eventually(lambda: nameserver_runs(cluster, images.nameserver), "our nameserver again")
    eventually(lambda: dig(cluster.bed, nameserver, "ts.net", "SOA").data, "an answer of it")
    eventually(lambda: LOST not in conditions(cluster), "nothing lost any more")


@pytest.mark.full
def test_the_go_nameserver_serves_our_records_and_the_status_says_what_it_cannot_do(
    cluster: Cluster, nameserver: str, go_nameserver: str, namespace: str
) -> None:
    service = egress_service(namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    right = Answer("NOERROR", (pod_ip(cluster.proxy(service)),))
    eventually(lambda: nameserver_runs(cluster, go_nameserver), "the Go operator's nameserver")
    eventually(lambda: right.data[0] in records(cluster), "the record")
    cluster.remount(NAMESPACE, {"app": "nameserver"})
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == right, f"{PEER_NAME} is {right}")
    assert (
        dig(cluster.bed, nameserver, PEER_NAME, "TXT").rcode == "NOTIMP"
    )  # only the Go operator's nameserver gives these answers
    lost = conditions(cluster)[LOST]
    assert (lost["status"], lost["reason"]) == ("False", "UpstreamImage")
    assert lost["message"].startswith(f"{go_nameserver} is Tailscale's nameserver: ")


def conditions(cluster: Cluster) -> dict[str, Object]:
    """Return the DNSConfig's conditions by type."""
    return {each["type"]: each for each in cluster.look(DNSCONFIG)["status"]["conditions"]}
