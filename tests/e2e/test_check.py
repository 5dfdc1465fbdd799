"""`tsoperator check` with a kubeconfig finds each of a dozen faults, and finds nothing in a healthy cluster.

Outside of the cluster, `tsoperator list` reads the leader's report through a port-forward.
"""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import pytest

from tests.docs.pages import DOCS, shell
from tests.e2e import faults
from tests.e2e.checking import check, is_well, listed, run
from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE, lease
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.errors import BedError
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, exposed_service


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


def test_the_commands_list_and_check_work_from_outside_of_the_cluster(cluster: Cluster, namespace: str) -> None:
    service = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(service)
    fqdn = cluster.device_proxy(service)["metadata"]["name"]

    def shown() -> Object:
        row: Object
        (row,) = [each for each in listed(cluster, namespace)["objects"] if each.get("namespace")]
        assert row["verdict"] == "ok", row
        return row

    row = eventually(shown, "the Service in the list", 60)
    assert (row["name"], row["ready"], row["wanted"]) == ("lb", 1, 1), fqdn
    assert row["names"][0].endswith(f".{DOMAIN}")
    table = run(cluster, "list", "-n", namespace)
    assert ("lb" in table.stdout, table.stderr) == (True, "")

    def is_well_here() -> bool:
        done = run(cluster, "check", "-n", namespace)
        assert (done.returncode, done.stdout.splitlines()[-1].endswith(", 0 to mend")) == (0, True), done.stdout
        return True

    eventually(is_well_here, "a check of one namespace without findings", 60)


def test_the_documented_port_forward_leads_to_the_status_page_of_the_leading_pod(cluster: Cluster) -> None:
    commands = [each for each in shell(DOCS / "list-and-check.md") if "leader" in each]
    words = ["sh", "-euc", "\n".join(commands)]

    def got(path: str, accept: str) -> str:
        asked = urllib.request.Request(f"http://localhost:9003{path}", headers={"Accept": accept})
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                text: str = answer.read().decode()
        except OSError as error:
            raise AssertionError(str(error)) from error
        return text

    with subprocess.Popen(words, env=cluster.bed.environment(), start_new_session=True) as forwarding:
        try:
            report = eventually(lambda: json.loads(got("/status", "application/json")), "the report", 30)
            assert got("/status", "text/html").startswith("<!doctype html>")
        finally:
            os.killpg(forwarding.pid, signal.SIGTERM)
    assert report["pod"] == lease(cluster.bed)["spec"]["holderIdentity"].partition("_")[0]
    assert report["namespace"] == NAMESPACE


def test_in_the_standby_the_command_list_fails_and_names_the_leading_pod_in_which_it_works(
    cluster: Cluster, namespace: str
) -> None:
    service = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(service)

    def inside(pod: str) -> str:
        return cluster.bed.kubectl("-n", NAMESPACE, "exec", pod, "--", "python3", "-m", "tsoperator", "list")

    def is_shown() -> bool:
        return any(namespace in line and " lb " in line for line in inside(leader).splitlines())

    leader = lease(cluster.bed)["spec"]["holderIdentity"].partition("_")[0]
    eventually(is_shown, "the Service in the list", 30)
    pods = cluster.listed("pods", labels={"app": "operator"})
    standby = next(name for each in pods if (name := each["metadata"]["name"]) != leader)
    with pytest.raises(BedError, match=f"exec {leader} -- python3 -m tsoperator list"):
        inside(standby)


@pytest.mark.full
def test_the_command_check_finds_no_fault_in_a_healthy_cluster(
    cluster: Cluster, nameserver: str, namespace: str
) -> None:
    service = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(service)
    cluster.device_proxy(service)
    eventually(lambda: is_well(cluster), "a check without findings", 60)


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.__name__)
def test_the_command_check_reports_a_fault_until_it_is_repaired(
    cluster: Cluster, nameserver: str, namespace: str, case: Case
) -> None:
    def is_found() -> bool:
        code, wrong = check(cluster)
        assert (code, case.check in wrong) == (1, True), wrong
        return case.words in wrong[case.check]

    with case.fault(cluster, namespace):
        eventually(is_found, case.words, 30)
    eventually(lambda: is_well(cluster), "a check without findings", 90)
