"""During all tests the API server denied no request of our programs, and they used all their permissions.

Our programs are the operator, its nameserver and its proxies. `UNUSED` and `RACES` have the permissions that they
need not use.
"""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from operatorbench.audit import entries

from tests.e2e.cluster import Cluster
from tests.e2e.product import NAMESPACE
from tests.e2e.test_recovery import SECRET_DELETED
from tests.e2e.testbed.errors import BedError
from tests.support.rbac import Conduct, Denial, Permission, bound, permissions

pytestmark = pytest.mark.verdict

OPERATOR = "operator"
OPERATOR_ROLE, PROXY_ROLE = f"Role {NAMESPACE}/operator", f"Role {NAMESPACE}/proxies"
STARTED = datetime.now(UTC)  # the audit log of a bed that was up before has older requests

ENFORCED = "admission asks for it, which is no request: see test_the_bed_enforces_permissions_for_owner_references"
UNUSED = {
    Permission("ClusterRole tailscale-operator", "update", "dnsconfigs.tailscale.com/finalizers"): ENFORCED,
    Permission("ClusterRole tailscale-operator", "update", "proxygroups.tailscale.com/finalizers"): ENFORCED,
    Permission("ClusterRole tailscale-operator", "update", "recorders.tailscale.com/finalizers"): ENFORCED,
    Permission(OPERATOR_ROLE, "update", "services/finalizers"): ENFORCED,
    Permission("ClusterRole tailscale-operator-dns", "get", "dnses.operator.openshift.io"): (
        "it reads who else writes there, while somebody keeps undoing its changes"
    ),
    **{
        Permission("ClusterRole tailscale-operator", "get", f"{plural}.admissionregistration.k8s.io"): (
            "it reads one that came while it was about to create it"
        )
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    },
    Permission(OPERATOR_ROLE, "get", "endpointslices.discovery.k8s.io"): "it reads one that is in the way of a new one",
    Permission(OPERATOR_ROLE, "update", "secrets"): "it grants this to the proxies of ProxyGroups, and patches itself",
    Permission(OPERATOR_ROLE, "delete", "serviceaccounts"): f"{ENFORCED} (of who puts an owner reference back)",
    Permission(PROXY_ROLE, "update", "secrets"): "the image asks whether it may, and doesn't start if not; it patches",
}
"""The permissions that no test uses, and the reasons why the roles have them."""
RACES = {
    Permission(OPERATOR_ROLE, "delete", "deployments.apps"): (
        "when the API server proxy is turned off, Kubernetes deletes its Deployment, too, and may be the first"
    ),
}
"""The permissions that only some runs of the tests use, each with the reason."""
REFUSED = ("proxies", "create", "secrets")
"""The user, verb and resource of a request that the API server has to deny while a proxy lacks its Secret.

During this time, the proxy tries to create the Secret itself, which only the operator is allowed to do.
"""


@pytest.fixture(scope="module")
def conduct(cluster: Cluster) -> Conduct:
    """The requests since the start of the bed, and the permissions that allowed them.

    If the bed was up before the tests, some objects exist already, so no request creates them.
    """
    return Conduct.of(NAMESPACE, OPERATOR, entries(cluster.bed.plane.audit_log))


@pytest.fixture(scope="module")
def granted(cluster: Cluster) -> set[Permission]:
    """All permissions of the operator, its nameserver and its proxies, as they are in the cluster."""
    kinds = "roles,clusterroles,rolebindings,clusterrolebindings"
    found = json.loads(cluster.bed.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]
    return {permission for role in bound(NAMESPACE, found) for permission in permissions(role)}


def test_during_all_tests_the_api_server_denied_no_request_of_the_programs(
    cluster: Cluster, conduct: Conduct, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = {denial for denial in conduct.denied if denial.when > STARTED}
    for why, began, end in cluster.bed.plane.excuses:
        allowed_else = {denial for denial in denied if denial.request in conduct.allowed}
        if why == SECRET_DELETED:
            requests = {each: each.request for each in denied}
            allowed_else |= {each for each, it in requests.items() if (it.user, it.verb, it.resource) == REFUSED}
        excused = {denial for denial in allowed_else if began <= denial.when <= end}
        denied -= excused
        with capsys.disabled():
            sys.stdout.write(f"\ndenied while {why}: {lines(excused)}\n")
    assert not denied, lines(denied)


@pytest.mark.whole
def test_during_all_tests_the_programs_used_each_permission_that_they_have(
    conduct: Conduct, granted: set[Permission]
) -> None:
    unused = granted - conduct.used
    assert not (without_reason := unused - UNUSED.keys() - RACES.keys()), lines(without_reason)
    assert not (not_needed := UNUSED.keys() - unused), f"used, or not granted any more: {lines(not_needed)}"


def lines(found: Iterable[Denial | Permission]) -> str:
    shown = sorted(map(str, found))
    return "\n  ".join([str(len(shown)), *shown])


def test_the_bed_enforces_permissions_for_owner_references(cluster: Cluster) -> None:
    owner = {"apiVersion": "tailscale.com/v1alpha1", "kind": "Connector", "name": "gate", "uid": "1"}
    metadata = {"name": "owned", "namespace": NAMESPACE, "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    words = ["create", "--dry-run=server", f"--as=system:serviceaccount:{NAMESPACE}:{OPERATOR}", "--filename=-"]
    with pytest.raises(BedError, match="cannot set blockOwnerDeletion"):
        cluster.bed.kubectl(*words, stdin=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
