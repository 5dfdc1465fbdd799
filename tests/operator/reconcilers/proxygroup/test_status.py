"""The status of a ProxyGroup."""

from dataclasses import replace

import pytest
from tsoperator.api.objects import POD, Key, Object
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxygroup.status import running_devices, status

from tests.operator.reconcilers.proxygroup.groups import live_group, secrets
from tests.operator.reconcilers.proxygroup.groups import running as joined
from tests.support.objects import deleting, down, obj, pod

DEVICE = {"hostname": "foo-0", "tailnetIPs": ["100.64.0.10"]}
FQDN = "foo-0.tail1234.ts.net."


UP = {"device_fqdn": FQDN, "device_ips": '["100.64.0.10"]', "pod_uid": "ABC"}
REPORTS: dict[str, tuple[dict[str, str], str | None, list[Object]]] = {
    "up": (UP, "abc", [DEVICE]),
    "up in capitals": ({**UP, "pod_uid": "abc"}, "ABC", [DEVICE]),
    "no addresses": ({**UP, "device_ips": ""}, "abc", [{"hostname": "foo-0"}]),
    "another Pod": (UP, "other", []),
    "no Pod": (UP, None, []),
    "no UID": ({**UP, "pod_uid": ""}, "", []),
    "no domain": ({**UP, "device_fqdn": "foo-0"}, "abc", []),
    "no name": ({**UP, "device_fqdn": ""}, "abc", []),
    "new": ({}, "abc", []),
}


@pytest.mark.parametrize(("state", "uid", "devices"), REPORTS.values(), ids=REPORTS)
def test_the_status_of_a_group_lists_a_device_if_its_current_pod_has_reported_the_name_of_the_device(
    state: dict[str, str], uid: str | None, devices: list[Object]
) -> None:
    pods = [] if uid is None else [pod("foo-0", uid)]
    assert running_devices(Children(secrets=secrets(0, **state), pods=pods)) == devices


def test_the_status_of_a_group_leaves_out_a_device_whose_pod_is_down_unless_all_pods_are_down() -> None:
    states = [each for ordinal in range(2) for each in secrets(ordinal, **UP)]
    lost, well = down(pod("foo-0", "abc")), pod("foo-1", "abc")
    for pods, count in (([lost, well], 1), ([lost, down(well)], 2), ([lost], 1)):
        assert len(running_devices(Children(secrets=states, pods=pods))) == count


CREATING, READY, AVAILABLE = "ProxyGroupCreating", "ProxyGroupReady", "ProxyGroupAvailable"
JOINED = "its proxies are in the tailnet as foo-0.tail1234.ts.net (100.64.0.10) and foo-1.tail1234.ts.net (100.64.0.11)"
Told = tuple[str, str, str]


def running(is_true: bool, count: str, reason: str = CREATING) -> Told:
    return str(is_true), reason, f"{count} ProxyGroup pods running"


@pytest.mark.parametrize(
    ("count", "replicas", "available", "ready"),
    [
        (0, 2, running(False, "0/2"), running(False, "0/2")),
        (1, 2, running(True, "1/2"), running(False, "1/2")),
        (2, 2, running(True, "2/2", AVAILABLE), ("True", READY, JOINED)),
        (3, 1, running(True, "3/1"), ("False", CREATING, "waiting for 2 pods to shut down")),
        (0, 0, running(False, "0/0"), ("True", READY, "spec.replicas is 0, so it serves nothing")),
    ],
)
def test_the_conditions_of_a_group_count_its_devices(count: int, replicas: int, available: Told, ready: Told) -> None:
    made = status(live_group({"replicas": replicas}, generation=7), joined(*range(count)))
    found = [(each["status"], each["reason"], each["message"]) for each in made["conditions"]]
    assert found == [available, ready]
    assert [each.get("observedGeneration") for each in made["conditions"]] == [None, 7]
    assert made["proxies"] == f"{count}/{replicas}"
    assert [each["hostname"] for each in made.get("devices", [])] == [f"foo-{number}" for number in range(count)]


def test_the_conditions_of_a_group_name_the_pods_that_are_ending() -> None:
    first = joined(0)
    made = status(live_group(), replace(first, pods=[*first.pods, deleting(obj(POD, Key("tailscale", "foo-1")))]))
    words = "1/2 ProxyGroup pods running; waiting for Pod tailscale/foo-1 to end"
    assert {each["message"] for each in made["conditions"]} == {words}


def test_the_status_of_a_group_keeps_the_fields_and_conditions_of_others() -> None:
    other = {"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "t"}
    old = {"url": "https://x", "devices": [DEVICE], "conditions": [other]}
    made = status({**live_group(), "status": old}, Children())
    assert made["url"] == "https://x"
    assert "devices" not in made
    assert [each["type"] for each in made["conditions"]] == ["Other", AVAILABLE, READY]
