"""`tsoperator check` on the bed, as its admin runs it."""

import json
import subprocess
import sys
from typing import NamedTuple

from tests.e2e.cluster import Cluster
from tests.e2e.product import NAMESPACE, TREE


class Check(NamedTuple):
    """What a check has found wrong, by its name, and its exit code."""

    code: int
    wrong: dict[str, str]


def check(cluster: Cluster) -> Check:
    """Check as the admin does, from the machine that is the cluster."""
    options = ["--json", f"--namespace={NAMESPACE}", f"--kubeconfig={cluster.bed.plane.kubeconfig('admin')}"]
    command = [sys.executable, "-m", "tsoperator", "check", *options]
    argv = cluster.bed.machines["node"].command(command)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False, cwd=TREE)
    assert done.stdout, done.stderr
    found = [each for each in json.loads(done.stdout)["findings"] if each["verdict"] != "ok"]
    return Check(done.returncode, {each["check"]: f"{each['message']}; {each['cure']}" for each in found})


def is_well(cluster: Cluster) -> bool:
    """Tell whether a check finds nothing; an AssertionError says what it finds."""
    assert check(cluster) == Check(0, {})
    return True
