"""A Plan: what is to be done about one object, as a value; and how a desired child differs from a live one."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_MAGIC_DNSNAME, DNS_FINALIZER
from tsoperator.api.objects import Key, Object, Resource, annotations, is_deleting
from tsoperator.api.quantities import amount
from tsoperator.desired.given import given_names, without_given


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of our fields on an object that others write too."""

    resource: Resource
    key: Key
    body: Object


@dataclass(frozen=True, slots=True)
class Creation:
    """An object to create that others write too: one that turns out to be there is never replaced, but looked at."""

    obj: Object


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

    *hold* puts our finalizer on the object. *apply* has children, whole, and what others write too, to create or patch.
    *status* is the whole desired status, its conditions without transition times; None leaves it. *release* takes our
    finalizer off, last. *requeue_after* is in seconds.
    """

    hold: bool = False
    devices: Sequence[str] = ()
    apply: Sequence[Object | Creation | Patch] = ()
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
    one counts. Amounts of resources are compared as numbers: the API server writes them its own way.
    """
    if live is None:
        return desired in (None, "", {}, [])
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            contains(_comparable(name, live.get(name)), _comparable(name, value)) for name, value in desired.items()
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
    that no Pod restarts. A replace keeps the labels, annotations and finalizers that others put on the metadata, and a
    spec that is right but for what others added. What is on its way out is left alone: its end is a change that brings
    us back.
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
        and (ANNOTATION_MAGIC_DNSNAME in annotations(desired) or ANNOTATION_MAGIC_DNSNAME not in annotations(live))
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
    """Return *desired* with those fields of *live* that have all that it says: only another wish takes from them."""
    kept = {
        name: live[name]
        for name, value in desired.items()
        if name != "metadata" and name in live and contains(live[name], value)
    }
    return {**desired, **kept}


def _replacement(desired: Object, live: Object, digest: str) -> Object:
    theirs, ours = live["metadata"], desired["metadata"]
    gone = {("annotations", ANNOTATION_MAGIC_DNSNAME), *_no_longer_given(live, desired)}
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
    """Return *value* of the field *name* so that equal ones are the same."""
    if name == "env" and isinstance(value, list):
        return {variable["name"]: variable for variable in value}
    if name in ("requests", "limits") and isinstance(value, Mapping):
        return {resource: amount(given) for resource, given in value.items()}
    return value
