"""The changes that the devices of a proxy need, and the findings about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.device import Device
from tsoperator.api.objects import Key, Object
from tsoperator.proxy.devices import (
    NAME,
    TAGS,
    Destination,
    DevicePlan,
    Failed,
    Holder,
    TailnetView,
    destination_findings,
    is_numbered,
    misses_destination,
    plan_devices,
)
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import egress_to_name
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import ForgetFailure, FreeName, SetTags, Step, TakeName

from tests.support.objects import FQDN, pod

OWNER = Owner("svc", Key("default", "db"))
OURS = ("tag:k8s",)
OTHERS = ("tag:a",)
THIRD = ("tag:b",)
DEVICE = Device("n1", FQDN, "db", ("100.64.0.9", "fd7a:115c:a1e0::9"), OURS)
NUMBERED = replace(DEVICE, name="db-1.tail1234.ts.net")
TAGGED = DeviceFinding(Effect.NEWS, "TagsChanged", "other tags")
SET_TAGS = SetTags("staging", OWNER, "n1", OTHERS)
TAKE_NAME = TakeName("staging", OWNER, "n1", "db", OURS)
FREE_NAME = FreeName("staging", OWNER, "db", OURS)

Failures = Mapping[tuple[str, str], Failed]


class Case(NamedTuple):
    """A *proxy*, and the devices that its replicas have *reported*, by ordinal."""

    proxy: Proxy
    reported: Mapping[int, str]


def proxy(*reported: str, new: int = 0, tags: Sequence[str] = OURS) -> Case:
    """Return a proxy whose replicas have *reported* devices. It also has *new* replicas without devices."""
    key, config = Key("tailscale", "ts-db-abcde"), ProxyConfig("db", "https://controlplane.tailscale.com")
    made = Proxy(OWNER, "1234-UID", key, egress_to_name(FQDN), config, tags, replica_count=len(reported) + new)
    named = replace(made, hostname_prefix="db") if made.shares_hostname else made
    return Case(named, dict(enumerate(reported)))


def view(*devices: Device, failures: Failures | None = None, news: Sequence[DeviceFinding] = ()) -> TailnetView:
    found = {device.node_id: device for device in devices}
    return TailnetView("staging", devices=found, failures=failures or {}, news=news)


def planned(wanted: Case, seen: TailnetView, *, take_over: bool = True) -> DevicePlan:
    return plan_devices(wanted.proxy, wanted.reported, seen, take_over_names=take_over)


NOTHING = DevicePlan([], [], [])


@pytest.mark.parametrize("tags", [("tag:b", "tag:a"), ("tag:b", "tag:a", "tag:b")])
def test_the_order_of_the_tags_of_a_device_does_not_matter(tags: tuple[str, ...]) -> None:
    assert planned(proxy("n1", tags=("tag:a", "tag:b")), view(replace(DEVICE, tags=tags))) == NOTHING


@pytest.mark.parametrize("reported", ["n1", ""])
def test_a_device_that_is_not_in_the_list_of_devices_needs_no_request(reported: str) -> None:
    assert planned(proxy(reported, tags=OTHERS), view()) == NOTHING


def test_the_devices_of_all_replicas_get_the_tags_of_the_proxy() -> None:
    tags = {"n1": OURS, "n2": (), "n3": (*OTHERS, *OURS)}
    devices = [replace(DEVICE, node_id=node_id, tags=has) for node_id, has in tags.items()]
    made = planned(proxy(*tags, tags=OTHERS), view(*devices))
    assert made == DevicePlan([], [replace(SET_TAGS, device=node_id) for node_id in tags], [])


def test_a_device_plan_frees_names_before_it_makes_replicas_and_takes_names_over_after_it_sets_tags() -> None:
    freed = [replace(FREE_NAME, hostname=f"db-{ordinal}") for ordinal in (1, 2)]
    first = replace(NUMBERED, name="db-0-1.tail1234.ts.net", hostname="db-0")
    taken = replace(TAKE_NAME, hostname="db-0")
    assert planned(proxy("n1", new=2), view(first)) == DevicePlan(freed, [taken], [])
    both = planned(proxy("n1", tags=OTHERS), view(NUMBERED))
    assert both == DevicePlan([], [SET_TAGS, replace(TAKE_NAME, tags=OTHERS)], [])


def test_names_of_dead_devices_are_neither_freed_nor_taken_over_if_a_setting_forbids_that() -> None:
    made = planned(proxy("n1", new=1, tags=OTHERS), view(NUMBERED), take_over=False)
    assert (made.before, made.after) == ([], [SET_TAGS])


FREE = ["the name db was taken then, and is free now, so that", "or give this device its name in"]
HELD = [
    f"the name db is held by device {FQDN} (n9), so that device {NUMBERED.name} got a number",
    "choose another hostname, or delete that device and give this one its name in the tailnet's admin",
    "OPERATOR_TAKE_OVER_NAMES",
]


HOLDER = Holder(replace(DEVICE, node_id="n9"))
OF_ANOTHER = [
    f"held by device {FQDN} (n9), a proxy of Service default/one, so that",
    "give one of these two objects another",
]


@pytest.mark.parametrize(
    ("holders", "words"),
    [({"n1": HOLDER}, HELD), ({"n1": replace(HOLDER, parent="Service default/one")}, OF_ANOTHER), ({}, FREE)],
)
def test_the_finding_for_a_name_with_a_number_says_which_device_holds_the_name(
    holders: dict[str, Holder], words: list[str]
) -> None:
    seen = replace(view(NUMBERED), holders=holders)
    (found,) = planned(proxy("n1"), seen, take_over=False).findings
    assert (found.effect, found.reason, found.requeue_after) == (Effect.NOTICE, "NameHeld", 600)
    assert [each for each in words if each not in found.message] == []


@pytest.mark.parametrize("wanted", [proxy("n2"), proxy("n1", tags=OTHERS)])
def test_a_device_whose_name_has_no_number_causes_no_finding(wanted: Case) -> None:
    assert planned(wanted, view(DEVICE), take_over=False).findings == []


@pytest.mark.parametrize("take_over", [False, True])
def test_devices_that_share_a_hostname_do_not_take_over_the_name_and_get_no_finding(*, take_over: bool) -> None:
    one, reported = proxy("n1", "", tags=OTHERS)
    sharing = Case(replace(one, hostname_prefix=""), reported)
    assert planned(sharing, view(NUMBERED), take_over=take_over) == DevicePlan([], [SET_TAGS], [])


TAGS_REFUSED = DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted")
NAME_HELD = DeviceFinding(Effect.NOTICE, "NameHeld", "held by another")


def failed_tags(seconds: float) -> Failures:
    return {("n1", TAGS): Failed(OTHERS, TAGS_REFUSED, seconds)}


def failed_name(seconds: float) -> Failures:
    return {("n1", NAME): Failed("db", NAME_HELD, seconds)}


SECOND = replace(DEVICE, node_id="n2")
FAILURES: dict[str, tuple[Case, Device, Failures, list[Step], list[DeviceFinding]]] = {
    "tags": (proxy("n1", tags=OTHERS), DEVICE, failed_tags(595), [], [replace(TAGS_REFUSED, requeue_after=595)]),
    "name": (proxy("n1"), NUMBERED, failed_name(595), [], [replace(NAME_HELD, requeue_after=595)]),
    "tags, long ago": (proxy("n1", tags=OTHERS), DEVICE, failed_tags(0), [SET_TAGS], [TAGS_REFUSED]),
    "name, long ago": (proxy("n1"), NUMBERED, failed_name(-1), [TAKE_NAME], [NAME_HELD]),
    "other tags": (proxy("n1", tags=THIRD), DEVICE, failed_tags(595), [replace(SET_TAGS, tags=THIRD)], []),
    "another name": (proxy("n1"), NUMBERED, {("n1", NAME): Failed("web", NAME_HELD, 595)}, [TAKE_NAME], []),
    "another device": (proxy("n2", tags=OTHERS), SECOND, failed_tags(595), [replace(SET_TAGS, device="n2")], []),
    "tags that it has": (proxy("n1"), DEVICE, failed_tags(595), [ForgetFailure("staging", OWNER, "n1", TAGS)], []),
    "a name that it has": (proxy("n1"), DEVICE, failed_name(595), [ForgetFailure("staging", OWNER, "n1", NAME)], []),
}


@pytest.mark.parametrize(("wanted", "device", "failures", "steps", "findings"), FAILURES.values(), ids=FAILURES)
def test_a_failed_change_of_a_device_is_a_finding_and_is_not_repeated_before_its_time(
    wanted: Case, device: Device, failures: Failures, steps: list[Step], findings: list[DeviceFinding]
) -> None:
    assert planned(wanted, view(device, failures=failures)) == DevicePlan([], steps, findings)


def test_the_news_about_a_device_is_listed_before_all_other_findings() -> None:
    seen = view(replace(DEVICE, authorized=False), failures=failed_tags(595), news=[TAGGED])
    findings = planned(proxy("n1", tags=OTHERS), seen).findings
    assert [each.reason for each in findings] == ["TagsChanged", "DeviceApprovalNeeded", "TagsRefused"]
    assert planned(proxy(), view(news=[TAGGED])).findings == [TAGGED]


def test_the_finding_about_a_device_that_waits_for_approval_causes_another_reconcile_in_half_a_minute() -> None:
    (found,) = planned(proxy("n1"), view(replace(DEVICE, authorized=False))).findings
    assert (found.effect, found.reason, found.requeue_after) == (Effect.PENDING, "DeviceApprovalNeeded", 30)
    assert f"device {FQDN} is not approved" in found.message


OTHER_NAMES = [
    ("db", "db", "db"),
    ("orders", "db", "db"),
    ("db-x", "db", "db"),
    ("db-²", "db", "db"),
    ("db-", "db", "db"),
    ("db1", "db", "db"),
    ("db-1-1", "db", "db"),
    ("db-1", "db", "web"),
    ("db-1", "web", "db"),
    ("db-1", "db-1", "db"),
]
NUMBERED_NAMES = [("db-1", "db", "db"), ("db-12", "db", "db"), ("DB-1", "Db", "dB"), ("db-1-1", "db-1", "db-1")]


@pytest.mark.parametrize(("name", "wanted", "hostname"), NUMBERED_NAMES + OTHER_NAMES)
def test_only_the_hostname_with_a_number_after_it_is_recognized_as_a_numbered_name(
    name: str, wanted: str, hostname: str
) -> None:
    found = [is_numbered(Device("n1", each, hostname), wanted) for each in (name, f"{name}.tail1234.ts.net")]
    assert found == [(name, wanted, hostname) in NUMBERED_NAMES] * 2


RENAMED = replace(DEVICE, name="orders.tail1234.ts.net")
READDRESSED = replace(DEVICE, addresses=("100.64.0.10", "fd7a:115c:a1e0::a"))
ADDRESSES = "any more: name 100.64.0.10 or fd7a:115c:a1e0::a instead"
MOVES = {
    "gone": (FQDN, None, f"device {FQDN}, to which this leads, is not in the tailnet any more"),
    "address gone": ("100.64.0.9", None, "100.64.0.9, to which this leads, is not in the tailnet any more"),
    "renamed": ("DB.tail1234.ts.net", RENAMED, "name orders.tail1234.ts.net instead"),
    "readdressed": ("100.64.0.9", READDRESSED, f"device {FQDN} does not have the address 100.64.0.9 {ADDRESSES}"),
    "IPv6": ("FD7A:115C:A1E0:0::9", READDRESSED, f"{FQDN} does not have the address FD7A:115C:A1E0:0::9 {ADDRESSES}"),
}


@pytest.mark.parametrize("missed", [False, True])
@pytest.mark.parametrize(("text", "now", "words"), MOVES.values(), ids=MOVES)
def test_a_target_with_a_new_name_or_address_is_a_finding(
    text: str, now: Device | None, words: str, *, missed: bool
) -> None:
    (found,) = destination_findings(Destination(text, None, DEVICE, now), OURS, is_missed=missed)
    assert replace(found, message="") == DeviceFinding(Effect.FAILED, "TargetGone", "", is_reason=True)
    assert words in found.message


@pytest.mark.parametrize("destination", [None, Destination(FQDN, DEVICE), Destination(FQDN, RENAMED, DEVICE, RENAMED)])
def test_a_target_that_exists_causes_no_finding(destination: Destination | None) -> None:
    assert [destination_findings(destination, OURS, is_missed=missed) for missed in (False, True)] == [[], []]


def test_a_target_that_is_not_in_the_list_is_a_finding_only_if_the_proxy_does_not_find_it_either() -> None:
    assert destination_findings(Destination(FQDN), OURS, is_missed=False) == []
    (found,) = destination_findings(Destination(FQDN), ("tag:b", "tag:a"), is_missed=True)
    assert (found.effect, found.reason, found.is_reason) == (Effect.FAILED, "TargetNotFound", True)
    assert f"finds no device {FQDN} in the tailnet" in found.message
    assert "lets tag:a, tag:b reach it" in found.message


class Report(NamedTuple):
    missed: bool
    restarts: Sequence[int] = (0,)
    device_id: str = "n1"
    fqdn: str = ""
    listed: str = "n1"
    destination: Destination | None = Destination(FQDN)
    ended: Mapping[str, object] = {}


ENDED = {"exitCode": 0, "startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:00:59Z"}
REPORTS = {
    "no name yet": Report(missed=True),
    "no name yet, and the list is old": Report(missed=False, listed="n9"),
    "restarts, and the list is old": Report(missed=True, listed="n9", restarts=(0, 2)),
    "restarts to an address": Report(missed=True, restarts=(1,), destination=Destination("100.64.0.9")),
    "an address": Report(missed=False, destination=Destination("100.64.0.9")),
    "an IPv6 address": Report(missed=False, destination=Destination("fd7a:115c:a1e0::a")),
    "no destination": Report(missed=False, destination=None),
    "no container": Report(missed=False, listed="n9", restarts=()),
    "no device": Report(missed=False, restarts=(1,), device_id=""),
    "found": Report(missed=False, restarts=(1,), fqdn=FQDN),
    "found, and another one asked for": Report(missed=True, restarts=(1,), fqdn=FQDN, ended=ENDED),
    "stopped late": Report(
        missed=False, restarts=(1,), fqdn=FQDN, ended={**ENDED, "finishedAt": "2030-01-01T00:01:00Z"}
    ),
    "crashed": Report(missed=False, restarts=(1,), fqdn=FQDN, ended={**ENDED, "exitCode": 1}),
    "killed": Report(missed=False, restarts=(1,), fqdn=FQDN, ended={**ENDED, "exitCode": 137}),
    "stopped at an unknown time": Report(missed=False, restarts=(1,), fqdn=FQDN, ended={"exitCode": 0}),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_the_report_and_the_containers_of_a_proxy_show_whether_the_proxy_finds_its_target(report: Report) -> None:
    last = {"lastState": {"terminated": report.ended}}
    statuses: list[Object] = [{"containerStatuses": [{"restartCount": count, **last}]} for count in report.restarts]
    pods = [pod("ts-db-1", "new"), *({**pod("ts-db-0", "pod-uid"), "status": status} for status in statuses)]
    seen = replace(view(replace(DEVICE, node_id=report.listed)), destination=report.destination)
    assert misses_destination(pods, report.device_id, report.fqdn, seen) is report.missed
