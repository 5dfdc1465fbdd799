"""Commands of the documentation that need Pods with logs, and an operator in a Pod."""

import pytest

from tests.docs.fates import BED, RUN_BY
from tests.e2e.cluster import Cluster
from tests.e2e.testbed.commands import run
from tests.e2e.workloads import PEER_NAME, egress_service


@pytest.fixture(scope="module")
def namespace_of_db(cluster: Cluster, shared_namespace: str) -> str:
    """The namespace of a Service that has a proxy."""
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    cluster.device_proxy(service)
    return shared_namespace


@pytest.mark.parametrize("command", [command for command, test in RUN_BY.items() if test == BED])
def test_a_documented_command_works_on_a_real_cluster(cluster: Cluster, namespace_of_db: str, command: str) -> None:
    command = command.replace('"default"', f'"{namespace_of_db}"')
    assert run(["sh", "-euc", command], env=cluster.bed.environment())
