import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from itertools import takewhile
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from clustersim.apiclient import ApiClient
from clustersim.objects import LEASE, POD, name_of

NAMES = ("db.tail1234.ts.net", "web.tail1234.ts.net", "shop.tail1234.ts.net")
TO_CLUSTER_IPS = ("directory.tail1234.ts.net", "queue.tail1234.ts.net")
DEVICES = (
    "service/orders: device default-orders.tail1234.ts.net, port 80/TCP: 100.64.",
    "service/stock: device stock.tail1234.ts.net, port 80/TCP: 100.64.",
    "service/cloud-db: device cloud-db.tail1234.ts.net, every port: 100.64.",
    "connector/devnet: device devnet-1.tail1234.ts.net, route 192.0.2.0/24: 100.64.",
    "connector/exit: device cluster-exit.tail1234.ts.net, exit node: 100.64.",
    "connector/apps: device apps-connector.tail1234.ts.net, app connector: 100.64.",
    "connector/partner: device partner-net.tail5678.ts.net, route 198.51.100.0/24: 100.64.3.",
    "proxygroup/kapi: Tailscale Service kapi.tail1234.ts.net, the Kubernetes API by 2 proxies: 100.80.",
    "ingress/portal by proxygroup/ingress: Tailscale Service portal.tail1234.ts.net, HTTPS by 2 proxies: 100.80.",
    "service/queue by proxygroup/ingress: Tailscale Service queue.tail1234.ts.net, every port by 2 proxies: 100.80.",
    "peerrelay/edge: device edge-1.tail1234.ts.net, relay: 100.64.",
)
SECONDS = 50


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """Start the demo with *options* and the variables in *environment*. The demo creates its files in *folder*."""
    return subprocess.Popen(
        [sys.executable, "-m", "clustersim", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), **environment},
    )


@contextmanager
def kept(folder: Path, *options: str) -> Iterator[tuple[Path, list[str]]]:
    """Run a demo with `--keep`. Yield its folder and its output so far, and end it by a signal."""
    with start(folder, "--keep", *options) as demo:
        assert demo.stdout is not None
        lines = list(takewhile(lambda line: line != "Ctrl-C ends it.\n", demo.stdout))
        (place,) = folder.iterdir()
        try:
            yield place, lines
        finally:
            demo.send_signal(signal.SIGTERM)
            demo.communicate(timeout=SECONDS)
    assert demo.returncode == 0


def test_in_the_demo_every_name_resolves_and_every_device_is_in_the_tailnet(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        text, _ = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 0, text
    for name in NAMES:
        assert f"{name} leads to 10.244." in text
    assert all(f"{name} leads to 10.96." in text for name in TO_CLUSTER_IPS)
    assert [line for line in DEVICES if line not in text] == []
    assert "10 changes of an address" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_demo_with_keep_runs_until_a_signal_ends_it(tmp_path: Path) -> None:
    with kept(tmp_path) as (folder, lines):
        assert f"  export KUBECONFIG={folder}/kubeconfig PATH=$PWD/.venv/bin:$PATH\n" in lines
        assert any(line.startswith("  dig ") for line in lines)
        (page,) = (line.split()[-1].rstrip(".") for line in lines if line.startswith("A browser"))
        with urlopen(page) as answer:
            assert b"<!doctype html>" in answer.read().lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_in_the_demo_the_operator_logs_no_warning_and_tsoperator_check_finds_no_fault(tmp_path: Path) -> None:
    with kept(tmp_path) as (folder, _):
        check = [sys.executable, "-m", "tsoperator", "check", "--kubeconfig", f"{folder}/kubeconfig"]
        found = subprocess.run([*check, "--seconds", "30"], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, ""), found.stdout
        listing = [sys.executable, "-m", "tsoperator", "list", "--kubeconfig", f"{folder}/kubeconfig"]
        listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
        assert all(name in listed for name in (*NAMES, *TO_CLUSTER_IPS))
        assert " WARNING " not in (folder / "operator.log").read_text()


async def successor(folder: Path) -> tuple[str, str]:
    """Delete the operator's Pod. Return its name, and the name of the Pod that leads afterwards."""
    server = yaml.safe_load((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    async with (
        ApiClient(server) as api,
        asyncio.timeout(SECONDS),
        aclosing(api.watch(LEASE, "tailscale", {})) as leases,
    ):
        (pod,) = await api.list(POD, "tailscale", {"app": "operator"})
        await api.delete(POD, "tailscale", name_of(pod))
        async for lease in leases:
            leader = (lease["spec"].get("holderIdentity") or "").partition("_")[0]
            if leader not in ("", name_of(pod)):
                break
        return name_of(pod), leader


@pytest.mark.thorough
def test_an_operator_whose_pod_is_deleted_leads_again_in_the_next_pod(tmp_path: Path) -> None:
    with kept(tmp_path) as (folder, _):
        old, new = asyncio.run(successor(folder))
        listing = [
            sys.executable,
            "-m",
            "tsoperator",
            "list",
            "--output",
            "yaml",
            "--kubeconfig",
            f"{folder}/kubeconfig",
        ]
        report = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    assert (f"pod: {new}\n" in report, old != new) == (True, True)


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "words", "cure"),
    [
        ("policy", "FAILED: Service default/db: the control server does not let", "/api/v2/tailnet/-/acl --json"),
        ("credentials", "does not accept the OAuth client", "patch secret operator-oauth"),
        (
            "dns",
            "has no stub domain for tail1234.ts.net",
            "kubectl apply --filename docs/examples/dnsconfig-managed.yaml",
        ),
        ("node", "1/2 ProxyGroup pods running", "kubectl annotate node node2 clustersim/power-"),
    ],
)
def test_the_demo_shows_a_fault_on_request_and_repairs_it(tmp_path: Path, fault: str, words: str, cure: str) -> None:
    with start(tmp_path, "--fail", fault) as demo:
        text, _ = demo.communicate(timeout=240)
    assert demo.returncode == 0, text
    report, _, advice = text.partition("What to do:")
    assert (words in report, cure in advice, text.rstrip().endswith("all is well again")) == (True, True, True)


@pytest.mark.thorough
def test_a_demo_that_fails_shows_the_logs(tmp_path: Path) -> None:
    with start(tmp_path, PROXY_FIREWALL_MODE="nonsense") as demo:
        text, _ = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 1
    assert "FAILED: operator ended with code" in text
    assert "PROXY_FIREWALL_MODE" in text.partition("FAILED")[2]
    assert not list(tmp_path.iterdir())
