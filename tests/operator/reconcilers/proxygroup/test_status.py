"""The status of a ProxyGroup."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.proxygroup.status import running_devices, status

from tests.operator.reconcilers.proxygroup.groups import live_group, secrets
from tests.support.objects import pod

DEVICE = {"hostname": "foo-0", "tailnetIPs": ["100.64.0.10"]}
FQDN = "foo-0.tail1234.ts.net."


class Proxy(NamedTuple):
    """What a replica has reported, and the UID of its Pod."""

    state: dict[str, str]
    pod: str | None
    devices: list[Object]


UP = {"device_fqdn": FQDN, "device_ips": '["100.64.0.10"]', "pod_uid": "ABC"}


@pytest.mark.parametrize(
    "case",
    [
        Proxy(UP, "abc", [DEVICE]),
        Proxy({**UP, "pod_uid": "abc"}, "ABC", [DEVICE]),
        Proxy({**UP, "device_ips": ""}, "abc", [{"hostname": "foo-0"}]),
        Proxy(UP, "other", []),
        Proxy(UP, None, []),
        Proxy({**UP, "pod_uid": ""}, "", []),
        Proxy({**UP, "device_fqdn": "foo-0"}, "abc", []),
        Proxy({**UP, "device_fqdn": ""}, "abc", []),
        Proxy({}, "abc", []),
    ],
    ids=["up", "up in capitals", "no addresses", "another Pod", "no Pod", "no UID", "no domain", "no name", "new"],
)
def test_a_device_counts_if_its_pod_reported_its_name(case: Proxy) -> None:
    pods = [] if case.pod is None else [pod("foo-0", case.pod)]
    assert running_devices(secrets(0, **case.state)[:1], pods, {}) == case.devices


class Case(NamedTuple):
    """What the conditions say of so many devices of so many replicas."""

    devices: int
    replicas: int
    available: tuple[str, str, str]
    ready: tuple[str, str, str]


CREATING, READY, AVAILABLE = "ProxyGroupCreating", "ProxyGroupReady", "ProxyGroupAvailable"


def running(count: str) -> str:
    return f"{count} ProxyGroup pods running"


@pytest.mark.parametrize(
    "case",
    [
        Case(0, 2, ("False", CREATING, running("0/2")), ("False", CREATING, running("0/2"))),
        Case(1, 2, ("True", CREATING, running("1/2")), ("False", CREATING, running("1/2"))),
        Case(2, 2, ("True", AVAILABLE, running("2/2")), ("True", READY, READY)),
        Case(3, 1, ("True", CREATING, running("3/1")), ("False", CREATING, "waiting for 2 pods to shut down")),
        Case(0, 0, ("False", CREATING, running("0/0")), ("True", READY, READY)),
    ],
)
def test_the_conditions_count_the_devices(case: Case) -> None:
    devices = [{"hostname": f"foo-{number}"} for number in range(case.devices)]
    made = status(live_group(generation=7), devices, case.replicas)
    available, ready = [(found["status"], found["reason"], found["message"]) for found in made["conditions"]]
    assert (available, ready) == (case.available, case.ready)
    assert [found.get("observedGeneration") for found in made["conditions"]] == [None, 7]
    assert made.get("devices", []) == devices


def test_the_rest_of_the_status_stays() -> None:
    other = {"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "t"}
    old = {"url": "https://x", "devices": [DEVICE], "conditions": [other]}
    made = status({**live_group(), "status": old}, [], 2)
    assert made["url"] == "https://x"
    assert "devices" not in made
    assert [each["type"] for each in made["conditions"]] == ["Other", AVAILABLE, READY]
