"""The Job of the load generator dnsload, run against the cluster's DNS."""

import re
from pathlib import Path

import pytest
import yaml

from tests.e2e import product
from tests.e2e.cluster import Cluster, dig
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

JOB = Path(__file__).parents[2] / "loadtest" / "dnsload" / "job.yaml"


_LIMITED = 3
"""The exit code with which dnsload says that the machine was too busy, and that nothing else was wrong."""


@pytest.mark.full
def test_the_documented_job_with_dnsload_finds_no_wrong_answer_of_the_clusters_dns(
    cluster: Cluster, nameserver: str, namespace: str
) -> None:
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
    exits = eventually(lambda: _exit_codes(cluster), "the end of the Job", seconds=90)
    printed = cluster.bed.kubectl("-n", NAMESPACE, "logs", "job/dnsload")
    assert exits in ([0], [_LIMITED]), printed
    assert re.search(r"^wrong +0$", printed, re.MULTILINE)
    cluster.delete("job", "dnsload", NAMESPACE)


def _exit_codes(cluster: Cluster) -> list[int]:
    """Return the exit code of the Job's container, once it has ended."""
    pods = cluster.listed("pods", NAMESPACE, labels={"app": "dnsload"})
    statuses = [each["state"] for pod in pods for each in pod["status"].get("containerStatuses", ())]
    return [state["terminated"]["exitCode"] for state in statuses if "terminated" in state]
