"""Commands in the documentation that work only with real Pods: they read logs, or run in the operator's Pod."""

import pytest

from tests.docs.fates import BED, RUN_BY
from tests.docs.pages import DOCS, shell
from tests.e2e.cluster import Cluster
from tests.e2e.faults import wrong_credentials
from tests.e2e.testbed.commands import run
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service


@pytest.fixture(scope="module")
def namespace_of_db(cluster: Cluster, shared_namespace: str) -> str:
    """The namespace of a Service with a proxy."""
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    cluster.device_proxy(service)
    return shared_namespace


@pytest.mark.parametrize("command", [command for command, test in RUN_BY.items() if test == BED])
def test_a_documented_command_works_on_a_real_cluster(cluster: Cluster, namespace_of_db: str, command: str) -> None:
    command = command.replace('"default"', f'"{namespace_of_db}"')
    assert run(["sh", "-euc", command], env=cluster.bed.environment())


@pytest.mark.full
def test_the_documented_command_shows_why_the_preflight_of_a_tailnet_failed(cluster: Cluster) -> None:
    (command,) = (each for each in shell(DOCS / "tailnet-policy.md") if "PreflightFailed" in each)

    def shown() -> str:
        return run(["sh", "-euc", command], env=cluster.bed.environment())

    with wrong_credentials(cluster, ""):
        cluster.scale_operator(0)
        cluster.scale_operator(2)  # the operator runs the preflight at its start
        eventually(lambda: "does not accept the operator's OAuth client" in shown(), "the Event", 60)
