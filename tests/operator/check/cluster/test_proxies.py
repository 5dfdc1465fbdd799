"""Findings about proxies, their Pods and their devices."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tsoperator.api.device import Device
from tsoperator.api.objects import STATEFULSET, Key, Object, key_of
from tsoperator.check.cluster.proxies import ProxyObjects, check_devices, check_proxies, pod_problem, refusals_of
from tsoperator.runtime.ownership import Owner

from tests.operator.check.cluster.samples import wrong
from tests.support.objects import deleting, obj, pod, slim_secret

OWNER = Owner("svc", Key("default", "web"))
KEY = Key("tailscale", "ts-web-1a2b3")
POD = f"{KEY.name}-0"
DEVICE = Device("n1", "web.tail1234.ts.net")


def with_condition(kind: str, status: str, **fields: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **fields}]}


READY = with_condition("Ready", "True")
RUNNING = {**with_condition("Ready", "False"), "phase": "Running"}


def statefulset(ready: int, owner: Owner = OWNER) -> Object:
    content = {"spec": {"replicas": 1}, "status": {"readyReplicas": ready}}
    return obj(STATEFULSET, KEY, content, labels=owner.labels)


def a_pod(status: Object) -> Object:
    return {**pod(POD, "uid"), "spec": {"nodeName": "node1"}, "status": status}


def proxies(ready: int = 1, device: str = "n1", status: Object = READY, **others: Any) -> ProxyObjects:
    secret = slim_secret(POD, {"device_id": device, "device_fqdn": f"{DEVICE.name}."})
    found = ProxyObjects([statefulset(ready)], {key_of(pod(POD, "uid")): a_pod(status)}, {key_of(secret): secret}, {})
    return replace(found, **others)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (proxies(), "proxies that serve: 1 of 1"),
        (proxies(status=RUNNING), "proxies that serve: 1 of 1"),  # its Pod is replaced
        (proxies(statefulsets=[deleting(statefulset(0))], pods={}), "proxies that serve: 1 of 1"),
        (ProxyObjects([], {}, {}, {}), "there are no proxies yet"),
    ],
)
def test_a_proxy_that_serves_or_is_being_deleted_is_no_fault(found: ProxyObjects, words: str) -> None:
    assert [(each.verdict, each.words) for each in check_proxies(found)] == [("ok", words)]


NOT_READY = f"the proxy of Service default/web isn't ready: Pod {POD}: it is not ready: Running"
NOT_IN = f"Service default/web has not logged in to the tailnet: Pod {POD}"
SET = f"describe statefulset {KEY.name}"
REFUSED = {KEY.name: "violates PodSecurity"}
CASES = {
    "not ready": (proxies(0, status=RUNNING), NOT_READY, f"kubectl -n tailscale describe pod {POD}"),
    "refused": (proxies(0, refusals=REFUSED, pods={}), f"Pod {POD}: violates PodSecurity", SET),
    "not made": (proxies(0, pods={}), f"Pod {POD}: it was not made", SET),
    "no device": (proxies(device=""), NOT_IN, f"logs {POD}"),
    "no Secret": (proxies(secrets={}), NOT_IN, f"logs {POD}"),
}


@pytest.mark.parametrize(("found", "words", "cure"), CASES.values(), ids=CASES)
def test_the_finding_for_a_proxy_that_does_not_serve_says_why(found: ProxyObjects, words: str, cure: str) -> None:
    (finding,) = check_proxies(found)
    assert (finding.check, finding.verdict) == ("proxies", "FAILED")
    assert words in finding.words
    assert cure in finding.cure


def container(name: str = "tailscale", **state: Any) -> list[Object]:
    return [{"name": name, "state": state}]


NO_IMAGE = container(waiting={"reason": "ImagePullBackOff", "message": "not found"})
CRASHING = {
    "initContainerStatuses": container("sysctler", waiting={"reason": "CrashLoopBackOff"}),
    "containerStatuses": container(waiting={"reason": "PodInitializing"}),
}
STARTING = {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ContainerCreating"})}
ENDED = {"phase": "Succeeded", "containerStatuses": container(terminated={"exitCode": 0})}
STATES = {
    "ready": (READY, ""),
    "no status": ({}, "it is not ready: it has no status yet"),
    "no node": (
        with_condition("PodScheduled", "False", message="0/1 nodes are available"),
        "it is on no node: 0/1 nodes are available",
    ),
    "no node, no words": (
        with_condition("PodScheduled", "False", reason="Unschedulable"),
        "it is on no node: Unschedulable",
    ),
    "no image": ({"containerStatuses": NO_IMAGE}, "its container tailscale waits: ImagePullBackOff: not found"),
    "an init container": (CRASHING, "its container sysctler waits: CrashLoopBackOff"),
    "starting": (STARTING, "it is not ready: Pending"),
    "ended": (
        {"containerStatuses": container(terminated={"exitCode": 3})},
        "its container tailscale ended with exit code 3",
    ),
    "ended well": (ENDED, "it is not ready: Succeeded"),
    "a gate": (
        {**with_condition("Ready", "False", message="a gate is closed"), "phase": "Running"},
        "it is not ready: a gate is closed",
    ),
    "a silent node": (
        {**RUNNING, "containerStatuses": [{"name": "tailscale", "ready": True, "state": {"running": {}}}]},
        "its containers are ready, but it isn't: is its node node1 down?",
    ),
    "evicted": ({"reason": "Evicted", "phase": "Failed"}, "it is not ready: Evicted"),
}


@pytest.mark.parametrize(("status", "problem"), STATES.values(), ids=STATES)
def test_the_finding_for_a_pod_that_is_not_ready_says_why(status: dict[str, Any], problem: str) -> None:
    assert pod_problem(a_pod(status)) == problem
    assert pod_problem(deleting(a_pod(status))) == "it is being deleted"


OFFLINE = replace(DEVICE, connected=False)
SINCE = replace(OFFLINE, last_seen=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
FATES = {
    "gone": (None, " is not in the tailnet any more", f"delete secret,pod {POD}"),
    "not approved": (replace(DEVICE, authorized=False), " waits for approval", "approve it"),
    "offline": (OFFLINE, " is offline", f"kubectl -n tailscale logs {POD}"),
    "offline since": (SINCE, " is offline since 2026-01-02 03:04", f"logs {POD}"),
}


@pytest.mark.parametrize(("device", "words", "cure"), FATES.values(), ids=FATES)
def test_the_finding_for_a_device_with_a_fault_names_the_device(device: Device | None, words: str, cure: str) -> None:
    devices = {device.node_id: device} if device else {}
    (found,) = check_devices(proxies(), {"": devices})
    assert found.words == f"device web.tail1234.ts.net of Service default/web{words}"
    assert cure in found.cure


@pytest.mark.parametrize("connected", [True, None])
def test_a_device_counts_as_online_unless_the_control_server_says_that_the_device_is_offline(
    connected: bool | None,
) -> None:
    (found,) = check_devices(proxies(), {"": {"n1": replace(DEVICE, connected=connected)}})
    assert found.words == "devices of proxies that are in the tailnet and online: 1 of 1"


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        (proxies(device=""), False),
        (proxies(device="", secrets={}), False),
        (proxies(elsewhere={"Service default/web": "nobody's"}), False),
        (proxies(elsewhere={"Service default/web": "lab"}), False),
        (proxies(elsewhere={"Service default/web": "other"}), True),
        (proxies(), True),
    ],
)
def test_a_check_looks_for_a_device_in_the_tailnet_of_its_proxy(found: ProxyObjects, lost: bool) -> None:
    devices: dict[str, dict[str, Device]] = {"": {}, "lab": {"n1": DEVICE}, "other": {}}
    assert bool(wrong([*check_devices(found, devices)])) is lost


def test_the_reason_why_a_statefulset_has_no_pods_is_the_message_of_its_latest_failedcreate_event() -> None:
    events = [("FailedCreate", "1"), ("FailedCreate", "2"), ("Other", "3")]
    found = [{"involvedObject": {"name": "a"}, "reason": reason, "message": message} for reason, message in events]
    assert refusals_of(found) == {"a": "2"}
