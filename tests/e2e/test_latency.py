"""How long a new name takes, measured from its proxy's Pod on; that of a name whose Pod moves is in test_egress."""

import asyncio
import sys
import time
from pathlib import Path

import pytest
from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import POD, SERVICE, Key
from tsoperator.desired.children import Owner
from tsoperator.kube.client import KubeClient
from tsoperator.kube.watch import Changed, Selection, updates

from tests.e2e.cluster import Cluster, dig, is_ready
from tests.e2e.dnsprobe import Probe, Seen
from tests.e2e.product import NAMESPACE
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

PATIENCE = 60.0  # seconds


async def test_a_name_is_served_within_a_second_of_its_proxys_pod(
    cluster: Cluster,
    nameserver: str,
    namespace: str,
    api: KubeClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME).rcode == "NXDOMAIN", "no record at the start")
    with Probe.of(cluster.bed, nameserver, PEER_NAME, tmp_path) as probe:
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            ready = group.create_task(first_ready(api, Key(namespace, "db")))
            served = group.create_task(asyncio.to_thread(probe.wait_for, has_address, PATIENCE))
            await api.create(SERVICE, egress_service(namespace, "db", tailnet_fqdn=PEER_NAME))
    pod, name = ready.result() - started, served.result().at - started
    with capsys.disabled():
        sys.stdout.write(f"\nService created → proxy's Pod ready: {pod:.2f} s → name served: {name:.2f} s\n")
    assert name - pod < 1.0


def has_address(seen: Seen) -> bool:
    return bool(seen.addresses)


async def first_ready(api: KubeClient, service: Key) -> float:
    """Return when the Pod of a Service's proxy was seen ready, in seconds of the monotonic clock."""
    labels = ",".join(f"{name}={value}" for name, value in Owner(PARENT_SERVICE, service).labels.items())
    async for update in updates(api, Selection(POD, NAMESPACE, labels)):
        if isinstance(update, Changed) and is_ready(update.obj):
            break
    return time.monotonic()
