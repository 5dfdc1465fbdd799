"""The difference between a desired child and a live one, and the write that removes this difference."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_LAST_CLUSTER_IP, ANNOTATION_MAGIC_DNSNAME, DNS_FINALIZER
from tsoperator.api.objects import Object, annotations, is_deleting, labels
from tsoperator.api.quantities import amount
from tsoperator.runtime.given import given_names, without_given

_NAME_NOTES: Final = (ANNOTATION_MAGIC_DNSNAME, ANNOTATION_LAST_CLUSTER_IP)
"""The annotations of children that say where the name of a proxy leads.

They are removed when they are no longer desired.
"""


def digest_of(value: Any) -> str:
    """Return a short digest of JSON-like *value*, the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def contains(live: Any, desired: Any) -> bool:
    """Tell whether *live* contains *desired*. A map in *live* can have more fields, but a list has the same length.

    An empty map, list or string in *desired* can be missing in *live*, because the API server leaves it out. If the
    name of an environment variable is repeated, its last value is compared. Amounts of resources are compared as
    numbers, because the API server writes them its own way.
    """
    if live == desired:
        return True
    if live is None:
        return desired in ("", {}, [])
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            live.get(name) == value or contains(_comparable(name, live.get(name)), _comparable(name, value))
            for name, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(contains(*pair) for pair in zip(live, desired, strict=True))
        )
    return False


def write_for(desired: Object, live: Object | None) -> Object | None:
    """Return the object to create, or the object that replaces *live*; None if nothing has to be written.

    If *live* has no digest of ours, but contains *desired*, the Go operator made it. Then it only gets the digest, so
    that no Pod restarts. A replacement keeps the labels, annotations and finalizers of others. If *desired* hasn't
    changed since the last write, a replacement also keeps a spec that only has more fields than the desired one. An
    object that is being deleted is left alone, because the end of its deletion queues its parent again. An object to
    create has no resourceVersion.
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


def metadata_patch(live: Object, wanted: Object) -> Object:
    """Return the metadata of a merge patch that gives *live* the labels and the owner of *wanted*.

    The patch is empty if *live* has both already. Owner references that others have put on *live* stay.
    """
    ours = wanted["metadata"]
    missing = {name: value for name, value in labels(wanted).items() if labels(live).get(name) != value}
    patch: Object = {"labels": missing} if missing else {}
    references: Sequence[Object] = live["metadata"].get("ownerReferences") or ()
    owners = [each for each in ours.get("ownerReferences") or () if each.get("controller")]
    if not all(any(contains(each, owner) for each in references) for owner in owners):
        others = [each for each in references if not each.get("controller")]
        patch["ownerReferences"] = [*others, *owners]
        patch["resourceVersion"] = live["metadata"]["resourceVersion"]
    return patch


def to_create(desired: Object) -> Object:
    """Return the object to create for the child *desired*. It is the child with its digest."""
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
    """Return *desired*, but take a field from *live* if its value there contains the desired value.

    So the parts that others have added to such a field stay.
    """
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
    """Return *value*, which is that of the field called *name*, in a form in which equal values compare equal."""
    if name == "env" and isinstance(value, list):
        return {variable["name"]: variable for variable in value}
    if name in ("requests", "limits") and isinstance(value, dict):
        return {resource: amount(given) for resource, given in value.items()}
    return value
