"""Plans the requests to the control server for a proxy's devices, and the findings that the proxy's parent reports."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from tsoperator.api.device import Device, lookup_name
from tsoperator.api.names import DEFAULT_CONTROL_URL
from tsoperator.api.objects import Object
from tsoperator.api.policy import approval
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.replica import Replica
from tsoperator.runtime.plan import DeleteDevice, ForgetFailure, FreeName, Plan, Refusal, SetTags, Step, TakeName

TAGS: Final = "tags"
NAME: Final = "name"

TWO_HOSTNAMES: Final = "give one of these two objects another hostname"
"""The advice to the user if the proxies of two objects ask for the same name."""

_LATER: Final = 600.0  # s until the operator checks again which device has a name
_SHORT: Final = timedelta(minutes=1)  # a proxy that doesn't find its destination ends before that
_SOON: Final = 30.0  # s until another look at a device that somebody may have approved


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed request to set the value *wanted*. *finding* describes the failure. A retry is allowed in *seconds*."""

    wanted: object
    finding: DeviceFinding
    seconds: float


@dataclass(frozen=True, slots=True)
class Destination:
    """The device that an egress proxy leads to.

    *text* is the name or address that the proxy's parent gives. *device* is the device that has this name or address
    now; None if no device has it. In that case, *departed* is the device that had the name or address before, as that
    device was then; None if the operator never saw such a device. *moved* is the same device as it is now; None if it
    is gone.
    """

    text: str
    device: Device | None = None
    departed: Device | None = None
    moved: Device | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """The *device* that has a name.

    If the device is a proxy of this operator, *parent* is the title of the proxy's parent; otherwise it is empty.
    """

    device: Device
    parent: str = ""

    def __str__(self) -> str:
        whose = f", a proxy of {self.parent}" if self.parent else ""
        return f"device {self.device.name} ({self.device.node_id}){whose}"


@dataclass(frozen=True, slots=True)
class TailnetView:
    """A tailnet as the proxies of one parent see it.

    *devices* are the devices of the proxies, by ID. *failures* are the failed requests, by the ID of the device and
    `TAGS` or `NAME`. *news* are the findings that the parent has not reported yet. *refusal* says why the tailnet can't
    be used. If one of *devices* asked for a name that another device has, *holders* has that other device, by the ID of
    the device that asked. *is_listed* says whether the operator has read the list of devices.

    Until the operator has tried the tailnet's credentials, nothing is known. During that time, *pending* is the
    exception that a reconcile raises to wait for the result.
    """

    name: str = ""
    login_url: str = DEFAULT_CONTROL_URL
    devices: Mapping[str, Device] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], Failed] = field(default_factory=dict)
    news: Sequence[DeviceFinding] = ()
    destination: Destination | None = None
    refusal: Refusal | None = None
    holders: Mapping[str, Holder] = field(default_factory=dict)
    pending: Exception | None = None
    is_listed: bool = True


def untried_message(removal: Plan, view: TailnetView) -> str:
    """Return a message that *removal* can't delete devices before the operator has tried the tailnet's credentials.

    Return an empty text if the devices can be deleted, or if there are none to delete.
    """
    if view.pending is None or not any(isinstance(each, DeleteDevice) for each in removal.steps):
        return ""
    return (
        f"its devices can't be deleted until the operator has tried the credentials of Tailnet {view.name!r}; "
        f"{removal.way_out}"
    )


OWN_TAILNET = TailnetView()
"""The view of the operator's own tailnet at Tailscale's control server, without devices and findings."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The requests to the control server *before* and *after* the proxy's children are written, and the *findings*."""

    before: Sequence[Step] = ()
    after: Sequence[Step] = ()
    findings: Sequence[DeviceFinding] = ()


NO_DEVICES = DevicePlan()


def plan_devices(proxy: Proxy, reported: Mapping[int, str], view: TailnetView, *, take_over_names: bool) -> DevicePlan:
    """Return the requests that the devices of *proxy* need, and the findings about the devices that *view* shows.

    *reported* are the IDs of the devices that the replicas have reported, by ordinal. A replica that isn't in
    *reported* is new. If a replica has reported no device yet, its ID is empty. With *take_over_names*, the requests
    also free the hostnames that dead devices have.
    """
    before: list[Step] = []
    after: list[Step] = []
    findings = [*view.news]
    for each in proxy.replicas:
        device = view.devices.get(reported.get(each.ordinal, ""))
        if each.ordinal not in reported:
            if take_over_names:
                before.append(FreeName(view.name, proxy.owner, each.hostname, tuple(each.tags)))
        elif device is not None:
            findings += _unapproved(device)
            if not (take_over_names or proxy.shares_hostname) and is_numbered(device, each.hostname):
                findings.append(_number(device, each.hostname, view.holders.get(device.node_id)))
            for step, told in _upkeep(device, each, proxy, view, take_over_names):
                after += step
                findings += told
    return DevicePlan(before, after, findings)


def _upkeep(
    device: Device, replica: Replica, proxy: Proxy, view: TailnetView, take_over_names: bool
) -> Iterator[tuple[list[Step], list[DeviceFinding]]]:
    """Yield the steps and the findings about the tags of *device*, and after them those about its name."""
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


def _unless_it_failed(step: Step, wanted: object, failed: Failed | None) -> tuple[list[Step], list[DeviceFinding]]:
    """Return *step*, which requests *wanted*, and the finding about an earlier such request if that one failed.

    While it is too early to request *wanted* again, return the finding without the step.
    """
    if failed is None or failed.wanted != wanted:
        return [step], []
    if failed.seconds <= 0:
        return [step], [failed.finding]
    return [], [replace(failed.finding, requeue_after=failed.seconds)]


def _unapproved(device: Device) -> list[DeviceFinding]:
    if device.authorized:
        return []
    return [DeviceFinding(Effect.PENDING, "DeviceApprovalNeeded", approval(device.name), _SOON)]


def _number(device: Device, hostname: str, holder: Holder | None) -> DeviceFinding:
    """Return the finding that *device* got a name with a number because another device had the name *hostname*.

    *holder* is the device that has the name *hostname* now; None if no device has it any more.
    """
    who = f"is held by {holder}" if holder else "was taken then, and is free now"
    what = "delete that device and give this one its name" if holder else "give this device its name"
    words = f"the name {hostname} {who}, so that device {device.name} got a number: "
    if holder and holder.parent:
        words += TWO_HOSTNAMES
    else:
        words += (
            f"choose another hostname, or {what} in the tailnet's admin console. With OPERATOR_TAKE_OVER_NAMES the "
            "operator takes over the names of dead devices"
        )
    return DeviceFinding(Effect.NOTICE, "NameHeld", words, _LATER)


def is_numbered(device: Device, hostname: str) -> bool:
    """Tell whether *device* asked for *hostname*, but got it with a number because another device had it."""
    label = hostname.lower()
    stem, _, number = device.short_name.lower().rpartition("-")
    return device.hostname.lower() == stem == label and number.isascii() and number.isdigit()


def destination_findings(
    destination: Destination | None, tags: Sequence[str], *, is_missed: bool
) -> list[DeviceFinding]:
    """Return a finding if the device at the *destination* of an egress proxy with *tags* is gone, or was never found.

    *is_missed* tells whether the proxy itself fails to find the device.
    """
    if destination is None or destination.device is not None:
        return []
    if destination.departed is not None:
        words = _departed(destination.text, destination.departed, destination.moved)
        return [DeviceFinding(Effect.FAILED, "TargetGone", words, is_reason=True)]
    if not is_missed:
        return []
    words = (
        f"the proxy finds no device {destination.text} in the tailnet: check the name, that the device is there, and "
        f"that the tailnet's policy lets {listed(tags)} reach it"
    )
    return [DeviceFinding(Effect.FAILED, "TargetNotFound", words, is_reason=True)]


def misses_destination(pods: Iterable[Object], device_id: str, fqdn: str, view: TailnetView) -> bool:
    """Tell whether an egress proxy doesn't find its destination (docs/development/proxies.md).

    A proxy first reports the ID of its own device (*device_id*). After that, it looks for its destination. When it has
    found the destination, it also reports the name of its own device (*fqdn*). Before that, it possibly exits with code
    0 and starts again. We need these signs, because a destination can be a Tailscale Service or a 4via6 name, and our
    list of devices has neither.
    """
    statuses = [each for pod in pods for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    if device_id and not fqdn and any(each.get("restartCount", 0) for each in statuses):
        return True
    if device_id not in view.devices or view.destination is None or _is_address(view.destination.text):
        return False  # the list of devices may be older than the proxy's login, and a proxy never looks for an address
    return not fqdn or any(map(_has_given_up, statuses))


def _has_given_up(status: Object) -> bool:
    """Tell whether a container has ended with exit code 0 soon after its start."""
    ended = (status.get("lastState") or {}).get("terminated") or {}
    if ended.get("exitCode") != 0 or not (ended.get("startedAt") and ended.get("finishedAt")):
        return False
    ran = datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])
    return ran < _SHORT


def _is_address(text: str) -> bool:
    return ":" in text or text[-1:].isdecimal()


def _departed(name: str, gone: Device, now: Device | None) -> str:
    if now is None:
        return f"device {name}, to which this leads, is not in the tailnet any more: bring it back, or name another"
    if lookup_name(name) in gone.addresses:
        return f"device {now.name} does not have the address {name} any more: name {' or '.join(now.addresses)} instead"
    return f"device {name} has another name now: name {now.name} instead"


def listed(tags: Iterable[str]) -> str:
    """Return *tags* as a text: sorted, with commas between them, or "none" if there are no tags."""
    return ", ".join(sorted(tags)) or "none"
