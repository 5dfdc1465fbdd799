"""Runs `tsoperator check` on the bed as the cluster's admin."""

import json
import subprocess
import sys
from typing import NamedTuple

from tests.e2e.cluster import Cluster
from tests.e2e.product import NAMESPACE, TREE


class Check(NamedTuple):
    """The result of `tsoperator check`: the faults by the name of the check that found each, and the exit code."""

    code: int
    wrong: dict[str, str]


def check(cluster: Cluster) -> Check:
    """Run `tsoperator check` with the admin's kubeconfig, on the machine `node` of the bed."""
    options = ["--json", f"--namespace={NAMESPACE}", f"--kubeconfig={cluster.bed.plane.kubeconfig('admin')}"]
    command = [sys.executable, "-m", "tsoperator", "check", *options]
    argv = cluster.bed.machines["node"].command(command)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False, cwd=TREE)
    assert done.stdout, done.stderr
    found = [each for each in json.loads(done.stdout)["findings"] if each["verdict"] != "ok"]
    return Check(done.returncode, {each["check"]: f"{each['message']}; {each['cure']}" for each in found})


def is_well(cluster: Cluster) -> bool:
    """Return True if `tsoperator check` finds no fault. Otherwise raise AssertionError with the faults."""
    assert check(cluster) == Check(0, {})
    return True
