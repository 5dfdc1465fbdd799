"""The cluster as a whole."""

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE
from clustersim.sim import cluster_sim

from tests.loadtest.clustersim.running import group_pod, start_group, state, until


async def test_a_health_port_is_reached_through_the_proxy_into_the_cluster() -> None:
    async with cluster_sim() as sim, aiohttp.ClientSession() as session, asyncio.timeout(30):
        start_group(sim.store, sim.control)
        for index in range(2):
            sim.store.create(POD, group_pod(index))
        await until(sim.store, lambda: "device_fqdn" in state(sim.store, "foo-1"))
        place = {"name": "ts-db", "namespace": "tailscale", "labels": {"kubernetes.io/service-name": "ts-db"}}
        sim.store.create(SERVICE, {"metadata": place, "spec": {"ports": [{"port": 9002}]}})
        ends = [{"addresses": ["10.244.0.3"]}]
        slice_ = {"metadata": place, "addressType": "IPv4", "endpoints": ends, "ports": [{"port": 9002}]}
        sim.store.create(ENDPOINTSLICE, slice_)
        url = "http://ts-db.tailscale.svc.cluster.local:9002/healthz"
        async with session.get(url, proxy=sim.health_proxy_url) as response:
            named = {name: response.headers[name] for name in ("Pod-IPv4", "Pod-IPv6")}
            assert (response.status, await response.text()) == (200, "ok")
    assert named == {"Pod-IPv4": "10.244.0.3", "Pod-IPv6": "2001:db8:244::3"}


@pytest.mark.thorough
async def test_the_command_serves_until_a_signal_stops_it(tmp_path: Path) -> None:
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
