"""Decides what the devices of a proxy need, and what the parent says of them (standalone-proxies.md 10, 13.3)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tsoperator.api.device import Device, lookup_name
from tsoperator.api.names import DEFAULT_CONTROL_URL
from tsoperator.api.objects import Object
from tsoperator.desired.advice import approval
from tsoperator.desired.children import Owner
from tsoperator.desired.findings import Effect, Finding
from tsoperator.desired.plan import ForgetFailure, FreeName, Refusal, SetTags, Step, TakeName
from tsoperator.desired.replica import Replica

TAGS: Final = "tags"
NAME: Final = "name"

_SOON: Final = 30.0  # s until another look at a device that somebody may have approved


@dataclass(frozen=True, slots=True)
class Failed:
    """A control server did not do what was *wanted*: the *finding* says so, and we ask again in *seconds*."""

    wanted: object
    finding: Finding
    seconds: float


@dataclass(frozen=True, slots=True)
class Destination:
    """The device that an egress proxy leads to.

    *text* is the name or address that the proxy's parent gives. *device* has that name or address now. *departed* is
    the device that had it last, as it was then, and *moved* is the same device as it is now.
    """

    text: str
    device: Device | None = None
    departed: Device | None = None
    moved: Device | None = None


@dataclass(frozen=True, slots=True)
class TailnetView:
    """A tailnet as the proxies of one parent see it.

    *devices* are the devices of the proxies, by ID. *failures* says what the control server didn't do for a device, by
    its ID and `TAGS` or `NAME`. *news* is what has been done since the last look. *refusal* says why the tailnet can't
    be used.
    """

    name: str = ""
    login_url: str = DEFAULT_CONTROL_URL
    devices: Mapping[str, Device] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], Failed] = field(default_factory=dict)
    news: Sequence[Finding] = ()
    destination: Destination | None = None
    refusal: Refusal | None = None


OWN_TAILNET = TailnetView()
"""The operator's own tailnet at Tailscale, of which nothing else is known."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What to ask of the control server *before* and *after* the proxy's children are made, and what to tell."""

    before: Sequence[Step] = ()
    after: Sequence[Step] = ()
    findings: Sequence[Finding] = ()


NO_DEVICES = DevicePlan()


@dataclass(frozen=True, slots=True)
class ProxyDevices:
    """The devices of one proxy: its *owner*, its *replicas*, and by ordinal the device IDs that they have reported.

    A replica that is not in *reported* is new; one that has reported no device yet has an empty ID there.
    """

    owner: Owner
    replicas: Sequence[Replica]
    reported: Mapping[int, str]
    shares_hostname: bool = False
    """Several replicas have one hostname, so all but one of them get a number."""


def plan_devices(proxy: ProxyDevices, view: TailnetView, *, take_over_names: bool) -> DevicePlan:
    """Return what makes the devices of *proxy* right, as far as the tailnet shows them."""
    before: list[Step] = []
    after: list[Step] = []
    findings = [*view.news]
    for each in proxy.replicas:
        device = view.devices.get(proxy.reported.get(each.ordinal, ""))
        if each.ordinal not in proxy.reported:
            if take_over_names:
                before.append(FreeName(view.name, proxy.owner, each.hostname, tuple(each.tags)))
        elif device is not None:
            findings += _unapproved(device)
            for step, told in _upkeep(device, each, proxy, view, take_over_names):
                after += step
                findings += told
    return DevicePlan(before, after, findings)


def _upkeep(
    device: Device, replica: Replica, proxy: ProxyDevices, view: TailnetView, take_over_names: bool
) -> Iterator[tuple[list[Step], list[Finding]]]:
    """Yield what to ask for *device* and what to tell, for its tags and for its name."""
    tags, node_id = tuple(replica.tags), device.node_id
    needed: dict[str, tuple[Step, object]] = {}
    if set(device.tags) != set(tags):
        needed[TAGS] = SetTags(view.name, proxy.owner, node_id, tags), tags
    if take_over_names and not proxy.shares_hostname and is_numbered(device, replica.hostname):
        needed[NAME] = TakeName(view.name, proxy.owner, node_id, replica.hostname, tags), replica.hostname
    for what in (TAGS, NAME):
        failed = view.failures.get((node_id, what))
        if what in needed:
            yield _unless_it_failed(*needed[what], failed)
        elif failed is not None:
            yield [ForgetFailure(view.name, proxy.owner, node_id, what)], []


def _unless_it_failed(step: Step, wanted: object, failed: Failed | None) -> tuple[list[Step], list[Finding]]:
    """Return *step* and the finding of an earlier failure; no step while it is too early to try the same again."""
    if failed is None or failed.wanted != wanted:
        return [step], []
    if failed.seconds <= 0:
        return [step], [failed.finding]
    return [], [replace(failed.finding, requeue_after=failed.seconds)]


def _unapproved(device: Device) -> list[Finding]:
    if device.authorized:
        return []
    return [Finding(Effect.PENDING, "DeviceApprovalNeeded", approval(device.name), _SOON)]


def is_numbered(device: Device, hostname: str) -> bool:
    """Tell whether *device* asked for *hostname* and got it with a number, because another device had it."""
    label = hostname.lower()
    stem, _, number = device.short_name.lower().rpartition("-")
    return device.hostname.lower() == stem == label and number.isascii() and number.isdigit()


def destination_findings(destination: Destination | None, tags: Sequence[str], *, is_stuck: bool) -> list[Finding]:
    """Say that the device at the *destination* of an egress proxy with *tags* is gone, or was never found."""
    if destination is None or destination.device is not None:
        return []
    if destination.departed is not None:
        return [
            Finding(Effect.NOTICE, "TargetGone", _departed(destination.text, destination.departed, destination.moved))
        ]
    if not is_stuck:
        return []
    words = (
        f"the proxy finds no device {destination.text} in the tailnet: check the name, that the device is there, and "
        f"that the tailnet's policy lets {listed(tags)} reach it"
    )
    return [Finding(Effect.NOTICE, "TargetNotFound", words)]


def is_stuck(pods: Iterable[Object], device_id: str, fqdn: str) -> bool:
    """Tell whether a proxy has a device but exits again and again before it reports its name (13.3, IMG 1)."""
    statuses = [each for pod in pods for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    return any(each.get("restartCount", 0) for each in statuses) and bool(device_id) and not fqdn


def _departed(name: str, gone: Device, now: Device | None) -> str:
    if now is None:
        return f"device {name}, to which this leads, is not in the tailnet any more: bring it back, or name another"
    if lookup_name(name) in gone.addresses:
        return f"device {now.name} does not have the address {name} any more: name {' or '.join(now.addresses)} instead"
    return f"device {name} has another name now: name {now.name} instead"


def listed(tags: Iterable[str]) -> str:
    """Return *tags* in one line."""
    return ", ".join(sorted(tags)) or "none"
