"""`tsoperator check` with a kubeconfig finds each of a dozen faults, and finds nothing in a healthy cluster."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import pytest

from tests.e2e import faults
from tests.e2e.checking import check, is_well
from tests.e2e.cluster import Cluster
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service

pytestmark = pytest.mark.full


class Case(NamedTuple):
    fault: Callable[[Cluster, str], AbstractContextManager[None]]
    check: str
    words: str


CASES = [
    Case(faults.no_operator, "operator", "is scaled to 0"),
    Case(faults.wrong_credentials, "tailnet/credentials", "does not accept the OAuth client"),
    Case(faults.client_without_tags, "tailnet/tags", "may not give tags to devices"),
    Case(faults.missing_crd, "crds", "the cluster has no Recorder"),
    Case(faults.missing_rule, "rights", "the operator may not patch services"),
    Case(faults.no_stub_domain, "cluster-dns", f"has no stub domain for {DOMAIN}"),
    Case(faults.wrong_stub_domain, "cluster-dns", f"asks 10.96.255.254 for {DOMAIN}"),
    Case(faults.nameserver_down, "nameserver", "none of its Pods is ready"),
    Case(faults.proxy_without_node, "proxies", "it is on no node"),
    Case(faults.deleted_device, "devices", "is not in the tailnet any more"),
    Case(faults.strict_pod_security, "pod-security", "enforces Pod security 'restricted'"),
    Case(faults.webhook_without_service, "webhooks", "Service default/gate has no ready Pod"),
]


def test_the_check_finds_nothing_in_a_healthy_cluster(cluster: Cluster, nameserver: str, namespace: str) -> None:
    service = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(service)
    cluster.device_proxy(service)
    eventually(lambda: is_well(cluster), "a check without findings", 60)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.__name__)
def test_the_check_reports_a_fault_until_it_is_repaired(
    cluster: Cluster, nameserver: str, namespace: str, case: Case
) -> None:
    def is_found() -> bool:
        code, wrong = check(cluster)
        assert (code, case.check in wrong) == (1, True), wrong
        return case.words in wrong[case.check]

    with case.fault(cluster, namespace):
        eventually(is_found, case.words, 30)
    eventually(lambda: is_well(cluster), "a check without findings", 90)
