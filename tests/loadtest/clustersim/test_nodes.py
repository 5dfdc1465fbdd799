"""Tests of nodes that die and come back, in virtual time."""

import asyncio
from datetime import datetime
from typing import Any

import pytest
from clustersim.nodes import POWER
from clustersim.objects import ENDPOINTSLICE, NODE, POD, SECRET, SERVICE, STATEFULSET, Object
from clustersim.pods import is_deleting, is_ready
from clustersim.sim import ClusterSim

from tests.loadtest.clustersim.running import config_secret, headless, new_key, proxy_pod, state, statefulset, until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def spread(sim: ClusterSim) -> ClusterSim:
    """A cluster of two nodes, with a StatefulSet of two Pods."""
    await until(sim.store, lambda: sim.store.find(NODE, "", "node1"))
    sim.kubelet.add_node("node2")
    sim.store.create(SERVICE, headless())
    sim.store.create(STATEFULSET, statefulset(2))
    await until(sim.store, lambda: len(endpoints(sim, "ready")) == 2)
    return sim


def pod(sim: ClusterSim, name: str = "web-1") -> Object:
    return sim.store.get(POD, "default", name)


def conditions(obj: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in obj["status"]["conditions"]}


def endpoints(sim: ClusterSim, condition: str) -> set[str]:
    """Return the names of the Pods whose endpoints, in all EndpointSlices, have *condition* with the value true."""
    found: list[Any] = [each for slice_ in sim.store.list(ENDPOINTSLICE) for each in slice_["endpoints"] or ()]
    return {each["targetRef"]["name"] for each in found if each["conditions"][condition]}


def seconds_until(sim: ClusterSim, time: str) -> float:
    return (datetime.fromisoformat(time) - sim.now()).total_seconds()


async def test_the_pods_of_a_statefulset_are_spread_over_the_nodes(spread: ClusterSim) -> None:
    assert [pod(spread, name)["spec"]["nodeName"] for name in ("web-0", "web-1")] == ["node1", "node2"]
    addresses = {pod(spread, name)["status"]["hostIP"] for name in ("web-0", "web-1")}
    assert addresses == {"192.0.2.10", "192.0.2.11"}


async def test_the_control_plane_marks_a_dead_node_after_its_grace_period(spread: ClusterSim) -> None:
    spread.kubelet.kill_node("node2")
    await asyncio.sleep(49)
    assert (is_ready(spread.store.get(NODE, "", "node2")), endpoints(spread, "serving")) == (True, {"web-0", "web-1"})
    await asyncio.sleep(2)
    assert conditions(spread.store.get(NODE, "", "node2"))["Ready"] == "Unknown"
    shown = conditions(pod(spread))
    assert (shown["Ready"], shown["ContainersReady"], endpoints(spread, "serving")) == ("False", "True", {"web-0"})


async def test_pods_of_a_dead_node_are_marked_for_deletion_when_their_toleration_ends(spread: ClusterSim) -> None:
    spread.kubelet.kill_node("node2")
    await asyncio.sleep(349)
    assert not is_deleting(pod(spread))
    await asyncio.sleep(2)
    assert seconds_until(spread, pod(spread)["metadata"]["deletionTimestamp"]) == pytest.approx(29, abs=1)
    await asyncio.sleep(100)
    assert (is_deleting(pod(spread)), is_deleting(pod(spread, "web-0"))) == (True, False)


async def test_only_a_forced_deletion_removes_a_pod_of_a_dead_node(spread: ClusterSim) -> None:
    spread.kubelet.kill_node("node2")
    uid = spread.store.delete(POD, "default", "web-1", grace=5)["metadata"]["uid"]
    await asyncio.sleep(100)
    assert pod(spread)["metadata"]["uid"] == uid
    spread.store.delete(POD, "default", "web-1", grace=0)
    await until(spread.store, lambda: endpoints(spread, "ready") == {"web-0", "web-1"})
    assert (pod(spread)["metadata"]["uid"] != uid, pod(spread)["spec"]["nodeName"]) == (True, "node1")


@pytest.mark.parametrize("seconds", [10, 100])
async def test_a_node_that_comes_back_starts_its_pods_again(spread: ClusterSim, seconds: float) -> None:
    before = pod(spread)
    spread.kubelet.kill_node("node2")
    await asyncio.sleep(seconds)
    spread.kubelet.revive_node("node2")
    await until(spread.store, lambda: endpoints(spread, "ready") == {"web-0", "web-1"})
    after = pod(spread)
    assert (after["metadata"]["uid"], is_ready(spread.store.get(NODE, "", "node2"))) == (
        before["metadata"]["uid"],
        True,
    )
    assert after["status"]["containerStatuses"][0]["restartCount"] == 1
    assert after["status"]["podIP"] != before["status"]["podIP"]
    await asyncio.sleep(350)
    assert not is_deleting(pod(spread))


async def test_a_node_that_comes_back_removes_the_pods_that_were_deleted_meanwhile(spread: ClusterSim) -> None:
    spread.kubelet.kill_node("node2")
    uid = spread.store.delete(POD, "default", "web-1")["metadata"]["uid"]
    await asyncio.sleep(100)
    spread.kubelet.revive_node("node2")
    await until(spread.store, lambda: endpoints(spread, "ready") == {"web-0", "web-1"})
    assert pod(spread)["metadata"]["uid"] != uid


async def test_proxies_go_offline_with_their_node_and_come_back_with_it(sim: ClusterSim) -> None:
    sim.store.create(SECRET, config_secret(AuthKey=new_key(sim.control)))
    sim.store.create(POD, proxy_pod(TS_ENABLE_HEALTH_CHECK="true"))
    await until(sim.store, lambda: "device_id" in state(sim.store))
    sim.kubelet.kill_node("node1")
    assert sim.kubelet.ask(sim.store.get(POD, "tailscale", "ts-db-0")["status"]["podIP"], 9002) is None
    await asyncio.sleep(61)
    device = sim.control.devices[state(sim.store)["device_id"]]
    assert (device.connected, bool(device.last_seen)) == (False, True)
    sim.kubelet.revive_node("node1")
    assert sim.control.devices[device.node_id].connected
    assert sim.kubelet.ask(sim.store.get(POD, "tailscale", "ts-db-0")["status"]["podIP"], 9002)


async def test_an_annotation_switches_a_simulated_node_off_and_on(spread: ClusterSim) -> None:
    spread.kubelet.monitor_grace = 2
    for value, is_well in (("off", False), (None, True)):
        spread.store.merge(NODE, "", "node2", {"metadata": {"annotations": {POWER: value}}})
        await asyncio.sleep(3)
        assert (is_ready(spread.store.get(NODE, "", "node2")), is_ready(pod(spread))) == (is_well, is_well)
