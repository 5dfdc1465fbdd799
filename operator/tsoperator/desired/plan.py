"""A Plan: what is to be done about one object, as a value; and how a desired child differs from a live one."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_MAGIC_DNSNAME, DNS_FINALIZER
from tsoperator.api.objects import Key, Object, Resource, annotations, is_deleting


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of our fields on an object that others write too."""

    resource: Resource
    key: Key
    body: Object


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object to delete, that very one.

    *release* names a finalizer of ours to take off it first. With *unchanged* only as it was seen: a Secret in which
    a proxy has just reported its device is looked at again.
    """

    resource: Resource
    obj: Object
    propagation: Literal["Background", "Foreground"] = "Background"
    release: str = ""
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to write on the object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What closes the gap between an object and the cluster, in the order in which it is carried out.

    *hold* puts our finalizer on the object. *apply* has children, whole, and patches of what others write too. *status*
    is the whole desired status, its conditions without transition times; None leaves it. *release* takes our finalizer
    off, last. *requeue_after* is in seconds.
    """

    hold: bool = False
    devices: Sequence[str] = ()
    apply: Sequence[Object | Patch] = ()
    delete: Sequence[Deletion] = ()
    status: Object | None = None
    notes: Sequence[Note] = ()
    release: bool = False
    requeue_after: float | None = None


def digest_of(value: Any) -> str:
    """Return a short digest of JSON-like *value*, the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def contains(live: Any, desired: Any) -> bool:
    """Tell whether *live* has all that *desired* says; the API server may have added fields to any map, but to no list.

    An empty map, list or string that the API server leaves out counts as there. Of a repeated environment name the last
    one counts.
    """
    if live is None:
        return desired in (None, "", {}, [])
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            contains(_last_by_name(live.get(name)), _last_by_name(value))
            if name == "env"
            else contains(live.get(name), value)
            for name, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(contains(*pair) for pair in zip(live, desired, strict=True))
        )
    return bool(live == desired)


def write_for(desired: Object, live: Object | None) -> Object | None:
    """Return the object to create (it has no resourceVersion) or to replace *live* with; None if nothing is to do.

    A live object without our digest that contains the desired one (made by the Go operator) only gets the digest, so
    that no Pod restarts. A replace keeps the labels, annotations and finalizers that others put on the metadata. What
    is on its way out is left alone: its end is a change that brings us back.
    """
    digest = digest_of(desired)
    if live is None:
        return _with_metadata(desired, {"annotations": {**annotations(desired), ANNOTATION_DIGEST: digest}})
    if is_deleting(live):
        return None
    last = annotations(live).get(ANNOTATION_DIGEST)
    if last in (None, digest) and _holds(live, desired):
        if last == digest:
            return None
        return _with_metadata(live, {"annotations": {**annotations(live), ANNOTATION_DIGEST: digest}})
    return _replacement(desired, live, digest)


def _holds(live: Object, desired: Object) -> bool:
    theirs, ours = live["metadata"], desired["metadata"]
    return (
        all(contains(live.get(name), value) for name, value in desired.items() if name != "metadata")
        and all(contains(theirs.get(name) or {}, ours.get(name) or {}) for name in ("labels", "annotations"))
        and (ANNOTATION_MAGIC_DNSNAME in annotations(desired) or ANNOTATION_MAGIC_DNSNAME not in annotations(live))
        and set(ours.get("finalizers") or ()) <= set(theirs.get("finalizers") or ())
        and all(
            any(contains(owner, wanted) for owner in theirs.get("ownerReferences") or ())
            for wanted in ours.get("ownerReferences") or ()
        )
    )


def _replacement(desired: Object, live: Object, digest: str) -> Object:
    theirs, ours = live["metadata"], desired["metadata"]
    others = {name: value for name, value in annotations(live).items() if name != ANNOTATION_MAGIC_DNSNAME}
    metadata = {
        "resourceVersion": theirs["resourceVersion"],
        "labels": {**(theirs.get("labels") or {}), **(ours.get("labels") or {})},
        "annotations": {**others, **annotations(desired), ANNOTATION_DIGEST: digest},
        "finalizers": sorted({*(theirs.get("finalizers") or ())} - {DNS_FINALIZER} | {*(ours.get("finalizers") or ())}),
    }
    return _with_metadata(desired, metadata)


def _with_metadata(obj: Object, metadata: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def _last_by_name(env: Any) -> Any:
    return {variable["name"]: variable for variable in env} if isinstance(env, list) else env
