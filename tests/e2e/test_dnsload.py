"""The Job of the load generator dnsload, run against the cluster's DNS."""

from pathlib import Path

import pytest
import yaml

from tests.e2e import product
from tests.e2e.cluster import Cluster, dig
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

JOB = Path(__file__).parents[2] / "loadtest" / "dnsload" / "job.yaml"


@pytest.mark.full
def test_the_job_finds_no_wrong_answer_of_the_clusters_dns(cluster: Cluster, nameserver: str, namespace: str) -> None:
    service = egress_service(namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    cluster.proxy(service)
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME).data, f"an address of {PEER_NAME}")
    job = yaml.safe_load(JOB.read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["image"] = product.push_image(cluster.bed, "dnsload")
    container["env"] = [
        {**variable, "value": {"DURATION": "5s"}.get(variable["name"], variable["value"])}
        for variable in container["env"]
    ]
    cluster.apply(job)
    wait = ["wait", "--for=condition=Complete", "--timeout=90s", "job/dnsload"]
    cluster.bed.kubectl("-n", NAMESPACE, *wait, timeout=100)
    assert "wrong" in cluster.bed.kubectl("-n", NAMESPACE, "logs", "job/dnsload").lower()
    cluster.delete("job", "dnsload", NAMESPACE)
