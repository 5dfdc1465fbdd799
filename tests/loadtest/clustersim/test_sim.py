"""The cluster as a whole."""

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import yaml
from clustersim.objects import CRD, DNSCONFIG, INGRESSCLASS, NODE, POD, ROLE, SERVICE, STATEFULSET
from clustersim.sim import SimOptions, cluster_sim

from tests.loadtest.clustersim.running import statefulset, until


async def test_a_cluster_begins_with_what_the_chart_brings() -> None:
    async with cluster_sim() as sim:
        assert sim.store.get(INGRESSCLASS, "", "tailscale")["spec"] == {"controller": "tailscale.com/ts-ingress"}
        assert sim.store.get(ROLE, "tailscale", "proxies")["rules"][0]["resources"] == ["secrets"]
        assert sim.store.get(SERVICE, "kube-system", "kube-dns")["spec"]["clusterIP"] == "10.96.0.10"
        assert sim.store.find(CRD, "", "dnsconfigs.tailscale.com") is not None


async def test_controllers_and_kubelets_run() -> None:
    async with cluster_sim() as sim:
        sim.store.create(STATEFULSET, statefulset(replicas=2))
        await until(
            sim.store,
            lambda: [pod["status"]["phase"] for pod in sim.store.list(POD, "default")] == ["Running", "Running"],
        )


async def test_without_controllers_a_workload_has_no_pods() -> None:
    options = SimOptions(controllers=False)
    async with cluster_sim(options) as sim, aiohttp.ClientSession(sim.api_url) as session:
        sim.store.create(STATEFULSET, statefulset())
        async with session.get("/api/v1/pods") as response:
            assert (await response.json())["items"] == []
        assert sim.store.list(NODE) == []


async def test_a_kind_can_come_later() -> None:
    options = SimOptions(absent=frozenset({"dnsconfigs"}))
    async with cluster_sim(options) as sim, aiohttp.ClientSession(sim.api_url) as session:
        statuses = []
        for _ in range(2):
            async with session.get("/apis/tailscale.com/v1alpha1/dnsconfigs") as response:
                statuses.append(response.status)
            sim.serve_kind(DNSCONFIG)
    assert statuses == [404, 200]
    assert sim.store.find(CRD, "", "dnsconfigs.tailscale.com") is not None


async def test_writes_are_counted() -> None:
    async with cluster_sim() as sim, aiohttp.ClientSession(sim.api_url, headers={"User-Agent": "me"}) as session:
        before = sim.writes.copy()
        async with session.post("/api/v1/namespaces", json={"metadata": {"name": "new"}}) as response:
            assert response.status == 201
        assert sim.writes_since(before) == {("me", "create", "namespaces"): 1}
        assert sim.requests["me", "create", "namespaces"] == 1


async def test_the_kubeconfig_leads_to_the_api_server() -> None:
    async with cluster_sim() as sim:
        config = yaml.safe_load(sim.kubeconfig())
    assert config["clusters"][0]["cluster"]["server"] == sim.api_url
    assert config["current-context"] == config["contexts"][0]["name"]


async def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    command = [sys.executable, "-m", "clustersim", "serve", "--kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        announced = [await process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert announced[0].split()[-1].decode() in kubeconfig.read_text()
    assert kubeconfig.stat().st_mode & 0o077 == 0
