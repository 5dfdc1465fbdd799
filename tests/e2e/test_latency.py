"""The latency probe: measured, printed, written down, and held against what the product promises."""

import json
import sys
from pathlib import Path

import pytest
from tsoperator.api.objects import Key
from tsoperator.kube.client import KubeClient

from tests.e2e.cluster import Cluster, dig
from tests.e2e.dnsprobe import Probe
from tests.e2e.latency import RESULTS, Bench, summary, table
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service

ROUNDS = 3


async def test_names_are_served_within_seconds(
    cluster: Cluster,
    nameserver: str,
    namespace: str,
    api: KubeClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    applied, moved = [], []
    for number in range(ROUNDS):
        key = Key(namespace, f"db{number}")
        eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME).rcode == "NXDOMAIN", "no record at the start")
        with Probe.of(cluster.bed, nameserver, PEER_NAME, tmp_path) as probe:
            bench = Bench(api, probe, key, PEER_NAME)
            applied.append(await bench.apply())
            moved.append(await bench.move())
        cluster.remove(egress_service(*key))
    results = {"applied": summary(applied), "pod_ip_changed": summary(moved)}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({"unit": "s", "rounds": ROUNDS, **results}, indent=1) + "\n")
    with capsys.disabled():
        for title, medians in results.items():
            sys.stdout.write(f"\n{table(title, medians)}\n")
    assert results["applied"]["served"] - results["applied"]["pod_ready"] < 1.0
    assert results["pod_ip_changed"]["served"] - results["pod_ip_changed"]["pod_ready"] < 1.0
