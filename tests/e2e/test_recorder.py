"""Recorders: their devices store recordings, come back after a deletion, and are deleted with their replicas."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.cluster import Cluster, Object, condition
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.support.manifests import credentials, recorder

S3 = {"endpoint": "s3.example.org", "bucket": "sessions", "credentials": {"secret": {"name": "sessions-s3"}}}
REC = recorder("sessions", enableUI=False, replicas=2, storage={"s3": S3})
KEYS = credentials("sessions-s3", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
NAMES = ["sessions-0", "sessions-1"]


@pytest.fixture(scope="module")
def recorded(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with a Recorder of two replicas that has joined the tailnet."""
    cluster.apply(KEYS, REC)
    eventually(lambda: [*shown(cluster)] == NAMES, f"{NAMES} in the status", 180)
    yield cluster
    cluster.remove(REC)
    cluster.delete("secret", "sessions-s3", "tailscale")


def shown(cluster: Cluster) -> dict[str, Object]:
    """Return the devices in the Recorder's status, by hostname."""
    return {device["hostname"]: device for device in cluster.look(REC).get("status", {}).get("devices") or ()}


def is_ready(cluster: Cluster) -> bool:
    return bool(condition(cluster.look(REC), "RecorderReady").get("status") == "True")


def takes_recording(outside: Peer, address: str) -> bool:
    return outside.curl("--fail", "--data", "{}", f"http://{address}/record", timeout=5) == ""


def test_the_devices_of_a_recorder_store_recordings_and_are_in_the_recorders_status(
    recorded: Cluster, outside: Peer
) -> None:
    eventually(lambda: is_ready(recorded), "a ready Recorder")
    for name, device in shown(recorded).items():
        assert device["url"] == f"https://{name}.{control.DOMAIN}"
        (address,) = (each for each in device["tailnetIPs"] if ":" not in each)
        eventually(partial(takes_recording, outside, address), f"{name} to take a recording")


def test_a_recorder_whose_device_was_deleted_joins_again_with_a_new_auth_key(
    recorded: Cluster, management: Management
) -> None:
    before, other = (management.device(name) or {} for name in reversed(NAMES))
    management.delete(before["nodeId"])

    def is_back() -> bool:
        found = management.device("sessions-1")
        return found is not None and found["nodeId"] != before["nodeId"]

    eventually(is_back, "sessions-1 to be back", 180)
    eventually(lambda: [*shown(recorded)] == NAMES and is_ready(recorded), f"{NAMES} in the status")
    assert shown(recorded)["sessions-1"]["url"] == f"https://sessions-1.{control.DOMAIN}"
    assert (management.device("sessions-0") or {})["nodeId"] == other["nodeId"]


def test_a_recorder_that_is_scaled_down_or_deleted_leaves_no_device(recorded: Cluster, management: Management) -> None:
    recorded.patch(REC, {"spec": {"replicas": 1}})
    eventually(lambda: management.device("sessions-1") is None, "sessions-1 is gone from the tailnet", 180)
    eventually(lambda: [*shown(recorded)] == NAMES[:1], f"{NAMES[:1]} in the status")
    assert len(recorded.children(REC, "secrets")) == 2
    recorded.remove(REC)
    assert [name for name in NAMES if management.device(name)] == []
