"""A Plan: what is to be done about one object, as a value; and how a desired child differs from a live one."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tsoperator.api.names import (
    ANNOTATION_DIGEST,
    ANNOTATION_LAST_CLUSTER_IP,
    ANNOTATION_MAGIC_DNSNAME,
    DNS_FINALIZER,
)
from tsoperator.api.objects import Key, Object, Resource, annotations, is_deleting
from tsoperator.api.quantities import amount
from tsoperator.desired.children import Owner
from tsoperator.desired.given import given_names, without_given

_NAME_NOTES: Final = (ANNOTATION_MAGIC_DNSNAME, ANNOTATION_LAST_CLUSTER_IP)
"""The annotations of children that go when they are no longer wanted, because they say where a name leads."""


@dataclass(frozen=True, slots=True)
class Child:
    """A whole child of ours as it should be: it is created, or it replaces a live one that differs."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Creation:
    """A child that others write too: it is created, but it never replaces one that turns out to be there."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of our fields on an object that others write too. *about* says in the log what they are."""

    resource: Resource
    key: Key
    body: Object
    about: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of *obj*, and of no other object that has its name.

    *release* names a finalizer of ours to take off it first. With *unchanged* the object is deleted only as it was
    seen: a Secret in which a proxy has just reported its device fails with a Conflict. A Pod has *grace* seconds to
    end; None leaves it the time that it says itself.
    """

    resource: Resource
    obj: Object
    propagation: Literal["Background", "Foreground"] = "Background"
    release: str = ""
    unchanged: bool = False
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteDevice:
    """Delete a device from the tailnet in which it is; the steps after it wait until that is done.

    Its parent names the Tailnet called *tailnet*; None says that the parent is gone. *name* is the MagicDNS name of the
    device, and *url* is where its proxy logs in. Both are empty if the proxy's Secrets don't say.
    """

    tailnet: str | None
    owner: Owner
    device: str
    name: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class SetTags:
    """Give a device these tags in place of those that it has; nothing waits for it."""

    tailnet: str
    owner: Owner
    device: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FreeName:
    """Delete the dead device that has the name *hostname*, if there is one; the steps after it wait for that.

    A device is dead if it has been offline for long and has the *tags* of the proxy that wants the name.
    """

    tailnet: str
    owner: Owner
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeName:
    """Give a device the name *hostname*, which is freed first as by `FreeName`; nothing waits for it."""

    tailnet: str
    owner: Owner
    device: str
    hostname: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetFailure:
    """Forget that the control server did not do *what* was asked for a device: the device no longer needs it."""

    tailnet: str
    owner: Owner
    device: str
    what: str


ControlStep = DeleteDevice | SetTags | FreeName | TakeName | ForgetFailure
"""A step that asks something of the control server of a tailnet for the proxies of an owner, or forgets a failure."""


@dataclass(frozen=True, slots=True)
class FindNodePorts:
    """Find out which node ports the cluster has, by a request for a Service that the API server must refuse."""


Errand = ControlStep | FindNodePorts
"""A step that doesn't write an object of the plan."""

Step = Child | Creation | Patch | Deletion | Errand


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to write on the object.

    An Event that repeats itself is written again from time to time, so that it stays visible. One that is told *once*
    is not.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request for an object that the API server or a control server refused.

    *message* says why, and what the user can do. *reason* is the reason for the condition, if it says more than that of
    the kind. *error* is what was raised.
    """

    message: str
    reason: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts about a proxy for the log: the hostname that it asks for, its routes, and its devices.

    Each device is its name in the tailnet and its addresses, as text.
    """

    hostname: str
    routes: str = ""
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that close the gap between an object and the cluster, in their order, and what to report.

    First the finalizer *hold* is put on the object, then come the *steps* in their order and an Event for each of
    *notes*. Then the object gets *status*, its whole desired status with conditions that have no transition time yet;
    None leaves the status as it is. Last the finalizer *release* is taken off. *requeue_after* is in seconds.

    *error* is raised when all that is done, so that the object is tried again. *way_out* tells the user what to do
    should a control server refuse one of the steps for good. *outline* is of the proxy that the object has, if it is to
    have one. A plan that isn't *whole* leaves out what else may be wrong with the object: it waits for something, or
    reports one refusal.
    """

    hold: str = ""
    steps: Sequence[Step] = ()
    notes: Sequence[Note] = ()
    status: Object | None = None
    release: str = ""
    requeue_after: float | None = None
    error: Exception | None = None
    way_out: str = ""
    outline: Outline | None = None
    whole: bool = True


def earliest(*seconds: float | None) -> float | None:
    """Return the least of *seconds* that isn't None; None if there is none."""
    return min((each for each in seconds if each is not None), default=None)


def digest_of(value: Any) -> str:
    """Return a short digest of JSON-like *value*, the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def contains(live: Any, desired: Any) -> bool:
    """Tell whether *live* has all that *desired* says; the API server may have added fields to any map, but to no list.

    An empty map, list or string that the API server leaves out counts as there. If an environment name is repeated, the
    last one counts. Amounts of resources are compared as numbers, because the API server writes them its own way.
    """
    if live == desired:
        return True
    if live is None:
        return desired in ("", {}, [])
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            contains(_comparable(name, live.get(name)), _comparable(name, value)) for name, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(contains(*pair) for pair in zip(live, desired, strict=True))
        )
    return False


def write_for(desired: Object, live: Object | None) -> Object | None:
    """Return the object to create (it has no resourceVersion) or to replace *live* with; None if nothing is to do.

    A live object without our digest that contains the desired one (the Go operator made it) only gets the digest, so
    that no Pod restarts. A replacement keeps the labels, annotations and finalizers that others put on the metadata. It
    also keeps a spec that differs only by what others added. An object that is being deleted is left alone, because the
    end of its deletion queues its parent again.
    """
    if live is None:
        return to_create(desired)
    digest = digest_of(without_given(desired))
    if is_deleting(live):
        return None
    last = annotations(live).get(ANNOTATION_DIGEST)
    if last not in (None, digest):
        return _replacement(desired, live, digest)
    if not _holds(live, desired):
        return _replacement(_with_fields_of(live, desired), live, digest)
    if last == digest:
        return None
    return _with_metadata(live, {"annotations": {**annotations(live), ANNOTATION_DIGEST: digest}})


def to_create(desired: Object) -> Object:
    """Return the object to create: *desired* with its digest."""
    digest = digest_of(without_given(desired))
    return _with_metadata(desired, {"annotations": {**annotations(desired), ANNOTATION_DIGEST: digest}})


def _holds(live: Object, desired: Object) -> bool:
    theirs, ours = live["metadata"], desired["metadata"]
    return (
        all(contains(live.get(name), value) for name, value in desired.items() if name != "metadata")
        and all(contains(theirs.get(name) or {}, ours.get(name) or {}) for name in ("labels", "annotations"))
        and all(name in annotations(desired) or name not in annotations(live) for name in _NAME_NOTES)
        and set(ours.get("finalizers") or ()) <= set(theirs.get("finalizers") or ())
        and all(
            any(contains(owner, wanted) for owner in theirs.get("ownerReferences") or ())
            for wanted in ours.get("ownerReferences") or ()
        )
        and not any(key in (theirs.get(field) or {}) for field, key in _no_longer_given(live, desired))
    )


def _no_longer_given(live: Object, desired: Object) -> set[tuple[str, str]]:
    wanted = desired["metadata"]
    return {(field, key) for field, key in given_names(live) if key not in (wanted.get(field) or {})}


def _with_fields_of(live: Object, desired: Object) -> Object:
    """Return *desired* with those fields of *live* that contain the desired ones, so that additions by others stay."""
    kept = {
        name: live[name]
        for name, value in desired.items()
        if name != "metadata" and name in live and contains(live[name], value)
    }
    return {**desired, **kept}


def _replacement(desired: Object, live: Object, digest: str) -> Object:
    theirs, ours = live["metadata"], desired["metadata"]
    gone = {*(("annotations", name) for name in _NAME_NOTES), *_no_longer_given(live, desired)}
    others = {
        field: {key: value for key, value in (theirs.get(field) or {}).items() if (field, key) not in gone}
        for field in ("labels", "annotations")
    }
    metadata = {
        "resourceVersion": theirs["resourceVersion"],
        "labels": {**others["labels"], **(ours.get("labels") or {})},
        "annotations": {**others["annotations"], **annotations(desired), ANNOTATION_DIGEST: digest},
        "finalizers": sorted({*(theirs.get("finalizers") or ())} - {DNS_FINALIZER} | {*(ours.get("finalizers") or ())}),
    }
    return _with_metadata(desired, metadata)


def _with_metadata(obj: Object, metadata: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def _comparable(name: str, value: Any) -> Any:
    """Return *value* of the field *name* in a form in which equal values compare equal."""
    if name == "env" and isinstance(value, list):
        return {variable["name"]: variable for variable in value}
    if name in ("requests", "limits") and isinstance(value, dict):
        return {resource: amount(given) for resource, given in value.items()}
    return value
