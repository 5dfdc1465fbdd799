"""What an administrator sees of a release: `helm test`."""

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.product import NAMESPACE, RELEASE
from tests.e2e.testbed.errors import BedError

TEST = ("test", RELEASE, "--namespace", NAMESPACE, "--logs", "--hide-notes")


def test_helm_test_finds_every_replica_and_the_nameserver_well(cluster: Cluster, nameserver: str) -> None:
    said = cluster.bed.helm(*TEST, timeout=200).splitlines()
    assert "Phase:          Succeeded" in said
    assert len([line for line in said if line.startswith("ok: operator at ") and line.endswith(" is ready")]) == 2
    assert f"ok: nameserver at {nameserver}:53 answers for ts.net" in said
    assert len([line for line in said if line.startswith("ok: operator at ") and line.endswith(" leads")]) == 1
    assert "ok: the tailnet is set up for the operator, as far as it can see" in said


@pytest.mark.full
def test_helm_test_fails_without_an_operator_and_says_what_to_look_at(cluster: Cluster, nameserver: str) -> None:
    cluster.scale_operator(0)
    try:
        with pytest.raises(BedError, match="exit code 1"):
            cluster.bed.helm(*TEST, timeout=200)
    finally:
        cluster.scale_operator(2)
    first, cure, second = cluster.bed.kubectl("-n", NAMESPACE, "logs", "operator-test").splitlines()
    assert first.startswith("FAILED: the operator has no Pod")
    assert "see why with `kubectl -n tailscale describe deployments,replicasets,pods" in cure
    assert second == f"ok: nameserver at {nameserver}:53 answers for ts.net"
