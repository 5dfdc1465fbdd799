"""Runs `tsoperator check` and `tsoperator list` on the bed as the cluster's admin."""

import json
import subprocess
import sys
from typing import NamedTuple

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE, TREE


class Check(NamedTuple):
    """The result of `tsoperator check`: the exit code, and each fault by the name of the check that found it."""

    code: int
    wrong: dict[str, str]


def run(cluster: Cluster, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a command of tsoperator with the admin's kubeconfig, on the machine `node` of the bed."""
    kubeconfig = f"--kubeconfig={cluster.bed.plane.kubeconfig('admin')}"
    words = [sys.executable, "-m", "tsoperator", command, *options, kubeconfig]
    argv = cluster.bed.machines["node"].command(words)
    return subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False, cwd=TREE)


def check(cluster: Cluster) -> Check:
    """Run `tsoperator check`, and return its result."""
    done = run(cluster, "check", "--json", f"--namespace={NAMESPACE}")
    assert done.stdout, done.stderr
    found = [each for each in json.loads(done.stdout)["findings"] if each["verdict"] != "ok"]
    return Check(done.returncode, {each["check"]: f"{each['message']}; {each['cure']}" for each in found})


def listed(cluster: Cluster, namespace: str) -> Object:
    """Run `tsoperator list` for one namespace, and return the report."""
    done = run(cluster, "list", "-o", "json", f"--namespace={namespace}")
    assert done.returncode == 0, done.stderr
    report: Object = json.loads(done.stdout)
    return report


def is_well(cluster: Cluster) -> bool:
    """Return True if `tsoperator check` finds no fault. Otherwise raise AssertionError with the faults."""
    assert check(cluster) == Check(0, {})
    return True
