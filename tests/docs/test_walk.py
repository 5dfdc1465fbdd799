"""The commands of a page work on a cluster with an operator, once the page's manifests are applied.

The API server is real, and so is kubectl; kubelets are simulated. tests/docs/fates.py says which commands run here.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from tsoperator.api.names import ANNOTATION_TAILNET_FQDN
from tsoperator.api.objects import Object, annotations

from tests.docs.applying import applied, asks, backends, in_world, unserved
from tests.docs.fates import WALK, fate_of
from tests.docs.pages import PAGES, ROOT, name_of, normalised, outputs, shell, whole
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress
from tests.support.manifests import backend, dnsconfig, egress, group_policy, ingress
from tests.support.operator import World, running_operator

SECONDS = 60
"""The time limit of a command, in seconds."""
ADDRESS = "192.0.2.53"
"""The address of the nameserver, for which commands on the pages use the variable ``$ip``."""
DOMAIN = "tail1234.ts.net"
"""The domain of the tailnet, for which commands on the pages use the variable ``$domain``."""
WORDS = {"<name>": "stock"}
"""A map from placeholders in commands to the values that a reader would choose."""


CHANGING = {
    r"\b[0-9a-f]{64}\b": "HASH",
    r"\b\d+(\.\d+){3}\b|\b[0-9a-f:]+::[0-9a-f]+\b": "ADDRESS",
    r"\b(\d+[smh])+\b": "AGE",
    r"\b(ts-[a-z0-9-]+)-[a-z0-9]{5}\b": r"\1-NAME",
    r":\d{5}/": ":PORT/",
}
"""Patterns for the parts of outputs that differ at each run, and their replacements."""
BEFORE: Mapping[str, Sequence[Object]] = {
    "docs/conditions.md": [egress()],
    "docs/high-availability.md": [ingress("shop", host="shop")],
    "docs/install.md": [egress(), backend("stock"), dnsconfig(), group_policy()],
    "docs/proxygroup.md": [egress()],
    "docs/troubleshooting.md": [egress()],
}
"""By page: the objects that its commands need, although the page doesn't say to apply them."""
CLUSTER_DNS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-dns, namespace: kube-system}
data: {stubDomains: '{"example.org": ["192.0.2.1"]}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data: {Corefile: '.:53 {}'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  replicas: 0
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: example.org/coredns}]}
"""
"""The objects of the cluster's DNS server that commands on the pages change."""
SET_UP = f"kubectl apply --server-side --force-conflicts -f - <<END\n{CLUSTER_DNS}END\n"
TEAR_DOWN = f"""
kubectl delete --ignore-not-found -f - <<END\n{CLUSTER_DNS}END
kubectl delete --ignore-not-found --namespace kube-system configmap coredns-custom
kubectl delete --ignore-not-found clusterrolebinding oidc-discovery tailnet-readers
"""


def walked(page: Path) -> list[str]:
    """Return the commands of *page* that test_walk runs, without repetitions."""
    commands = {normalised(command): command for command in shell(page)}
    return [command for line, command in commands.items() if fate_of(line) == WALK]


async def script(command: str, folder: Path, kubeconfig: Path) -> str:
    """Run *command* in a shell in *folder*, where kubectl uses *kubeconfig*, and return the output.

    The folder is that of the fixture `checkout`. Raises AssertionError if the command fails.
    """
    kubectl = await asyncio.to_thread(build_program, "kubectl", Paths.from_environment(), Progress())
    for word, meant in WORDS.items():
        command = command.replace(word, meant)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "KUBE_EDITOR": "sed -i /tailscale.com.finalizer/d",
        "PATH": f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}",
        "ip": ADDRESS,
        "domain": DOMAIN,
    }
    process = await asyncio.create_subprocess_exec(
        "sh", "-euc", command, stdout=PIPE, stderr=STDOUT, cwd=folder, env=environment
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, f"{command}\n{said.decode()}"
    return said.decode()


def promised(page: Path) -> set[str]:
    """Return the lines of output that *page* shows for the commands that test_walk runs."""
    shown = (text for block, text in outputs(page) if {fate_of(normalised(each)) for each in whole(block)} == {WALK})
    return lines("".join(shown))


def lines(text: str) -> set[str]:
    """Return the lines of *text*, with replacements for the parts that differ at each run."""
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text)
    return {" ".join(line.split()) for line in text.splitlines()} - {""}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A writable folder with the files that the documented commands name."""
    for name in ("charts", "coredns", "docs", "loadtest"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.real
@pytest.mark.parametrize("page", [page for page in PAGES if walked(page)], ids=name_of)
async def test_the_commands_on_a_page_of_the_docs_work_on_a_cluster(
    cluster: World, real_api: Path, checkout: Path, page: Path
) -> None:
    objects = [in_world(obj, cluster) for obj in (*BEFORE.get(name_of(page), ()), *applied(page))]
    for name in {annotations(obj).get(ANNOTATION_TAILNET_FQDN, "").partition(".")[0] for obj in objects} - {""}:
        cluster.peer(name)
    async with running_operator(cluster, operator_secret="operator"):
        await cluster.apply(*objects, *backends(objects))
        await cluster.becomes(lambda: unserved(cluster, [obj for obj in objects if asks(obj)]), [])
        await cluster.settled()  # all replicas are ready, not just enough of them
        await script(SET_UP, checkout, real_api)
        said = {command: await script(command, checkout, real_api) for command in walked(page)}
        await script(TEAR_DOWN, checkout, real_api)
    assert {command: words for command, words in said.items() if "No resources found" in words} == {}
    assert promised(page) - lines("\n".join(said.values())) == set()
