"""`helm test`, with which an administrator checks a release."""

from itertools import pairwise

import pytest

from tests.e2e import faults
from tests.e2e.checking import is_well
from tests.e2e.cluster import Cluster
from tests.e2e.product import NAMESPACE, RELEASE, wait_ready
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually

TEST = ("test", RELEASE, "--namespace", NAMESPACE, "--logs", "--hide-notes")


def test_helm_test_succeeds_if_every_replica_and_the_nameserver_are_healthy(cluster: Cluster, nameserver: str) -> None:
    said = cluster.bed.helm(*TEST, timeout=200).splitlines()
    assert "Phase:          Succeeded" in said
    assert len([line for line in said if line.startswith("ok: operator at ") and line.endswith(" is ready")]) == 2
    assert f"ok: nameserver at {nameserver}:53 answers for ts.net" in said
    assert len([line for line in said if line.startswith("ok: operator at ") and line.endswith(" leads")]) == 1
    assert "ok: the tailnet is set up for the operator, as far as it can see" in said


@pytest.mark.full(share=5)
def test_helm_test_fails_without_an_operator_and_says_what_to_look_at(cluster: Cluster, nameserver: str) -> None:
    cluster.scale_operator(0)
    try:
        with pytest.raises(BedError, match="exit code 1"):
            cluster.bed.helm(*TEST, timeout=200)
    finally:
        cluster.scale_operator(2)
    first, cure, second, count = cluster.bed.kubectl("-n", NAMESPACE, "logs", "operator-test").splitlines()
    assert first.startswith("FAILED: the operator has no Pod")
    assert "see why with `kubectl -n tailscale describe deployments,replicasets,pods" in cure
    assert (second, count) == (f"ok: nameserver at {nameserver}:53 answers for ts.net", "1 ok, 1 to mend")


CURES = {
    "the control server does not accept the OAuth client": "operator-oauth",
    "proxies don't serve (1 of type svc)": "`tsoperator check`",
}


@pytest.mark.full(share=6)
def test_helm_test_fails_if_the_operators_metrics_show_a_fault(
    cluster: Cluster, nameserver: str, namespace: str
) -> None:
    with faults.proxy_without_node(cluster, namespace), faults.wrong_credentials(cluster, namespace):
        log_in_anew(cluster)
        with pytest.raises(BedError, match="exit code 1"):
            cluster.bed.helm(*TEST, timeout=200)
        said = cluster.bed.kubectl("-n", NAMESPACE, "logs", "operator-test").splitlines()
    failed = [(line, cure) for line, cure in pairwise(said) if line.startswith("FAILED")]
    for words, cure in CURES.items():
        assert [words in line and cure in advice for line, advice in failed].count(True) == 1, failed
    log_in_anew(cluster)
    eventually(lambda: is_well(cluster), "a check without findings", 60)


def log_in_anew(cluster: Cluster) -> None:
    """Restart the operator, so that it uses a changed Secret at once and not only when the kubelet mounts it."""
    cluster.bed.kubectl("-n", NAMESPACE, "rollout", "restart", "deployment/operator")
    wait_ready(cluster.bed)
