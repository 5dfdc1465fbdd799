"""What is wrong with proxies, their Pods and their devices."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from tsoperator.api.device import Device
from tsoperator.api.objects import STATEFULSET, Key, Object, key_of
from tsoperator.cli.cluster.proxies import Proxies, check_devices, check_proxies, parent_of, pod_problem, refusals_of
from tsoperator.desired.children import Owner

from tests.operator.cli.cluster.samples import wrong
from tests.support.objects import obj, pod, slim_secret

OWNER = Owner("svc", Key("default", "web"))
KEY = Key("tailscale", "ts-web-1a2b3")
POD = f"{KEY.name}-0"
DEVICE = Device("n1", "web.tail1234.ts.net")
READY = [{"type": "Ready", "status": "True"}]
NOT_READY = [{"type": "Ready", "status": "False"}]


def statefulset(ready: int, replicas: int = 1, owner: Owner = OWNER) -> Object:
    content = {"spec": {"replicas": replicas}, "status": {"readyReplicas": ready}}
    return obj(STATEFULSET, KEY, content, labels=owner.labels)


def a_pod(**status: Any) -> Object:
    return {**pod(POD, "uid"), "status": status}


def proxies(ready: int = 1, device: str = "n1", found: Object | None = None, **others: Any) -> Proxies:
    secret = slim_secret(POD, {"device_id": device, "device_fqdn": f"{DEVICE.name}."})
    pods = {key_of(each): each for each in [found if found is not None else a_pod(conditions=READY)]}
    return Proxies([statefulset(ready)], pods, {key_of(secret): secret}, **({"refusals": {}} | others))


def test_a_proxy_that_serves_is_well() -> None:
    assert [each.words for each in check_proxies(proxies())] == ["proxies that serve: 1 of 1"]
    assert [each.words for each in check_proxies(Proxies([], {}, {}, {}))] == ["there are no proxies yet"]


def test_a_proxy_that_goes_is_no_fault() -> None:
    going = statefulset(0)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert wrong([*check_proxies(Proxies([going], {}, {}, {}))]) == []


def test_a_pod_that_is_replaced_is_no_fault() -> None:
    assert wrong([*check_proxies(proxies(1, found=a_pod(conditions=NOT_READY, phase="Running")))]) == []


class Case(NamedTuple):
    proxies: Proxies
    words: str
    cure: str


CASES = {
    "not ready": Case(
        proxies(0, found=a_pod(conditions=NOT_READY, phase="Running")),
        f"the proxy of Service default/web isn't ready: Pod {POD}: it is not ready: Running",
        f"kubectl -n tailscale describe pod {POD}",
    ),
    "refused": Case(
        replace(proxies(0, refusals={KEY.name: "violates PodSecurity"}), pods={}),
        f"Pod {POD}: violates PodSecurity",
        f"describe statefulset {KEY.name}",
    ),
    "not made": Case(replace(proxies(0), pods={}), f"Pod {POD}: it was not made", f"describe statefulset {KEY.name}"),
    "no device": Case(
        proxies(device=""), f"Service default/web has not logged in to the tailnet: Pod {POD}", f"logs {POD}"
    ),
    "no Secret": Case(replace(proxies(), secrets={}), "has not logged in to the tailnet", f"logs {POD}"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_proxy_that_does_not_serve_says_why(case: Case) -> None:
    (found,) = check_proxies(case.proxies)
    assert (found.check, found.verdict) == ("proxies", "FAILED")
    assert case.words in found.words
    assert case.cure in found.cure


def container(**state: Any) -> list[Object]:
    return [{"name": "tailscale", "state": state}]


STATES = {
    "ready": ({"conditions": READY}, ""),
    "no status": ({}, "it is not ready: it has no status yet"),
    "no node": (
        {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]},
        "it is on no node: 0/1 nodes are available",
    ),
    "no node, no words": (
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        "it is on no node: Unschedulable",
    ),
    "no image": (
        {"containerStatuses": container(waiting={"reason": "ImagePullBackOff", "message": "not found"})},
        "its container tailscale waits: ImagePullBackOff: not found",
    ),
    "an init container": (
        {
            "initContainerStatuses": [{"name": "sysctler", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            "containerStatuses": container(waiting={"reason": "PodInitializing"}),
        },
        "its container sysctler waits: CrashLoopBackOff",
    ),
    "starting": (
        {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ContainerCreating"})},
        "it is not ready: Pending",
    ),
    "ended": (
        {"containerStatuses": container(terminated={"exitCode": 3})},
        "its container tailscale ended with exit code 3",
    ),
    "ended well": (
        {"phase": "Succeeded", "containerStatuses": container(terminated={"exitCode": 0})},
        "it is not ready: Succeeded",
    ),
    "a gate": (
        {"conditions": [{"type": "Ready", "status": "False", "message": "a gate is closed"}], "phase": "Running"},
        "it is not ready: a gate is closed",
    ),
    "evicted": ({"reason": "Evicted", "phase": "Failed"}, "it is not ready: Evicted"),
}


@pytest.mark.parametrize(("status", "problem"), STATES.values(), ids=STATES)
def test_a_pod_that_is_not_ready_says_why(status: dict[str, Any], problem: str) -> None:
    assert pod_problem(a_pod(**status)) == problem


def test_a_pod_that_goes_is_not_ready() -> None:
    found = a_pod(conditions=READY)
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert pod_problem(found) == "it is being deleted"


SEEN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
FATES = {
    "gone": (None, " is not in the tailnet any more", f"delete secret,pod {POD}"),
    "not approved": (replace(DEVICE, authorized=False), " waits for approval", "approve it"),
    "offline": (replace(DEVICE, connected=False), " is offline", f"kubectl -n tailscale logs {POD}"),
    "offline since": (
        replace(DEVICE, connected=False, last_seen=SEEN),
        " is offline since 2026-01-02 03:04",
        f"logs {POD}",
    ),
}


@pytest.mark.parametrize(("device", "words", "cure"), FATES.values(), ids=FATES)
def test_a_device_that_is_not_as_it_should_be_is_named(device: Device | None, words: str, cure: str) -> None:
    devices = {device.node_id: device} if device else {}
    (found,) = check_devices(proxies(), {"": devices})
    assert found.words == f"device web.tail1234.ts.net of Service default/web{words}"
    assert cure in found.cure


@pytest.mark.parametrize("connected", [True, None])
def test_a_device_that_is_online_or_says_nothing_of_it_is_well(connected: bool | None) -> None:
    (found,) = check_devices(proxies(), {"": {"n1": replace(DEVICE, connected=connected)}})
    assert found.words == "devices of proxies that are in the tailnet and online: 1 of 1"


def test_devices_that_are_not_looked_for_are_no_fault() -> None:
    new = proxies(device="")
    for found in (new, replace(new, secrets={}), proxies(elsewhere={"Service default/web": "lab"})):
        assert wrong([*check_devices(found, {"": {}})]) == []


@pytest.mark.parametrize(("tailnet", "lost"), [("lab", False), ("other", True), ("", True)])
def test_a_device_is_looked_for_in_the_tailnet_of_its_proxy(tailnet: str, lost: bool) -> None:
    devices: dict[str, dict[str, Device]] = {"": {}, "lab": {"n1": DEVICE}, "other": {}}
    found = check_devices(proxies(elsewhere={"Service default/web": tailnet}), devices)
    assert bool(wrong([*found])) is lost


@pytest.mark.parametrize(
    ("owner", "named"),
    [
        (Owner("ingress", Key("default", "web")), "Ingress default/web"),
        (Owner("connector", Key("", "router")), "Connector router"),
        (Owner("proxygroup", Key("", "pg")), "ProxyGroup pg"),
        (Owner("recorder", Key("", "r")), "recorder r"),
    ],
)
def test_a_proxy_is_named_by_its_parent(owner: Owner, named: str) -> None:
    assert parent_of(statefulset(1, owner=owner)) == named
    assert parent_of(obj(STATEFULSET, KEY)) == f"StatefulSet {KEY}"


def test_the_last_refusal_of_a_statefulset_counts() -> None:
    def event(reason: str, message: str) -> Object:
        return {"involvedObject": {"name": "a"}, "reason": reason, "message": message}

    assert refusals_of([event("FailedCreate", "1"), event("FailedCreate", "2"), event("Other", "3")]) == {"a": "2"}
