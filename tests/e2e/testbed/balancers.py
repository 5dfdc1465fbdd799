"""Gives each Service of type LoadBalancer an address of the node, as the load balancers of a cloud do.

If the status of a Service shows an address, kube-proxy leads connections to this address to the Pods of the Service.
This module is a program of its own: it runs on the node, and calls kubectl.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.controlplane import ControlPlane
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.network import LOAD_BALANCERS
from tests.e2e.testbed.parts import program

_ALL = ("get", "services", "--all-namespaces")
_LINES = '-o=jsonpath={.spec.type}/{.spec.loadBalancerClass}/{.status.loadBalancer}{"\\n"}'
_UNSERVED = "LoadBalancer//{}"
_TREE = Path(__file__).parents[3]


def start(plane: ControlPlane, node: Isolation) -> None:
    """Start the program that gives Services addresses, on the machine *node*."""
    kubectl: list[Word] = [program(plane.paths, "kubectl"), f"--kubeconfig={plane.kubeconfig('admin')}"]
    argv: list[Word] = [sys.executable, "-m", "tests.e2e.testbed.balancers", *kubectl]
    plane.daemons.start("balancers", argv, node, {"PYTHONPATH": str(_TREE)})


def missing(services: Iterable[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return a free address for each LoadBalancer Service that has no address and no class, by namespace and name.

    Services beyond the number of free addresses get none.
    """
    balanced = [each for each in services if each["spec"]["type"] == "LoadBalancer"]
    shown = {key(each): each["status"]["loadBalancer"].get("ingress") for each in balanced}
    taken = {entry.get("ip") for entries in shown.values() for entry in entries or ()}
    wanting = [each for each in balanced if not shown[key(each)] and "loadBalancerClass" not in each["spec"]]
    free = (address for address in LOAD_BALANCERS if address not in taken)
    return dict(zip(map(key, wanting), free, strict=False))


def key(service: dict[str, Any]) -> tuple[str, str]:
    """Return the namespace and name of a Service."""
    return service["metadata"]["namespace"], service["metadata"]["name"]


def serve(kubectl: Sequence[str]) -> None:
    """Give Services addresses until kubectl's watch of Services ends."""
    with subprocess.Popen([*kubectl, *_ALL, "--watch", _LINES], stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout
        for line in watch.stdout:
            if line.strip() != _UNSERVED:
                continue
            services = json.loads(subprocess.check_output([*kubectl, *_ALL, "-o=json"]))["items"]
            for (namespace, name), address in missing(services).items():
                status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
                patch = [f"--namespace={namespace}", "patch", "service", name, "--subresource=status", "--type=merge"]
                subprocess.run([*kubectl, *patch, f"--patch={status}"], check=False)


if __name__ == "__main__":
    while True:
        try:
            serve(sys.argv[1:])
        except subprocess.CalledProcessError as problem:
            sys.stderr.write(f"{problem}\n")
        time.sleep(1)  # the API server can't be reached now
