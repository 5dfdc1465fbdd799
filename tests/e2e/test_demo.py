"""A real kubectl on the simulated API server of a demo that stays up. These tests need no bed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clustersim.demo_faults import FAULTS

from tests.e2e.product import TREE
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress
from tests.loadtest.clustersim.test_demo import kept

OWN = """\
apiVersion: v1
kind: Service
metadata:
  name: mine
  annotations:
    tailscale.com/tailnet-fqdn: db.tail1234.ts.net
spec:
  type: ExternalName
  externalName: placeholder
"""
EXAMPLES = TREE / "docs" / "examples"


class Kubectl:
    """kubectl with the kubeconfig of a demo, and with its files in a folder of its own."""

    def __init__(self, program: Path, demo: Path, home: Path) -> None:
        self._words = [str(program), f"--kubeconfig={demo / 'kubeconfig'}", f"--cache-dir={home}"]

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Run kubectl, and return its output and its errors."""
        done = subprocess.run(
            [*self._words, *words],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout


@pytest.fixture(scope="module")
def program() -> Path:
    """The path of the bed's kubectl."""
    return build_program("kubectl", Paths.from_environment(), Progress())


@pytest.fixture(scope="module")
def kubectl(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with kept(tmp_path_factory.mktemp("demo")) as (demo, _):
        yield Kubectl(program, demo, tmp_path_factory.mktemp("cache"))


def test_an_example_of_the_demo_is_unchanged_when_it_is_applied_again(kubectl: Kubectl) -> None:
    said = kubectl("apply", "--filename", str(EXAMPLES / "connector.yaml"))
    assert said.splitlines() == [f"connector.tailscale.com/{name} unchanged" for name in ("devnet", "exit", "apps")]


def test_kubectl_creates_changes_and_deletes_a_service_in_the_demo(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--filename=-", stdin=OWN) == "service/mine created\n"
    ready = '--for=jsonpath={.status.conditions[?(@.type=="TailscaleProxyReady")].status}=True'
    assert "condition met" in kubectl("wait", "service/mine", ready, "--timeout=30s")
    assert kubectl("apply", "--filename=-", stdin=OWN.replace("db.", "directory.")) == "service/mine configured\n"
    assert "directory.tail1234.ts.net" in kubectl("describe", "service", "mine")
    assert kubectl("delete", "service", "mine", "--timeout=30s").startswith('service "mine" deleted')


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"  type:": "  tpye:"}, 'unknown field "spec.tpye"'),
        ({"  externalName: placeholder": "  ports: [{port: http}]"}, "must be of type integer"),
    ],
)
def test_kubectl_apply_names_a_wrong_field_of_a_service_in_the_demo(
    kubectl: Kubectl, wrong: dict[str, str], words: str
) -> None:
    ((old, new),) = wrong.items()
    assert words in kubectl("apply", "--filename=-", stdin=OWN.replace(old, new))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("explain connector.spec.subnetRouter", "advertiseRoutes"),
        ("explain service.spec.ports.targetPort", "Number or name of the port"),
        ("get connectors", "SUBNETROUTES"),
        ("get recorders", "RecorderCreated"),
        ("get pods --namespace tailscale --output wide", "NODE"),
        ("get services,ingresses", "EXTERNAL-IP"),
        ("logs --namespace tailscale deployment/operator --tail 1", "INFO"),
        ("logs --namespace tailscale egress-0", "no program runs in it"),
        ("describe connector devnet", "ConnectorReady"),
        ("describe pod --namespace tailscale egress-0", "tailscale"),
        ("version", "Server Version"),
    ],
)
def test_kubectl_works_with_the_simulated_api_server_of_the_demo(kubectl: Kubectl, command: str, words: str) -> None:
    assert words in kubectl(*command.split())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_command_that_the_demo_shows_for_a_fault_mends_the_fault(program: Path, fault: str, tmp_path: Path) -> None:
    with kept(tmp_path, "--fail", fault) as (demo, lines):
        command = lines[lines.index("Mend it:\n") + 2].strip()
        environment = {
            **os.environ,
            "KUBECONFIG": f"{demo}/kubeconfig",
            "PATH": f"{program.parent}:{os.environ['PATH']}",
        }
        subprocess.run(["bash", "-c", command], cwd=TREE, env=environment, timeout=60, check=True)
        check = [sys.executable, "-m", "tsoperator", "check", "--seconds", "90"]
        done = subprocess.run(check, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout
