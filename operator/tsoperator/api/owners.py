"""The owners of a Tailscale Service: the operators that serve it, from one or from several clusters.

Each operator writes its ID into an annotation of the Tailscale Service. The ID is that of the operator's own device, so
it stays the same when another version of the operator, or Tailscale's own operator, takes its place.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tsoperator.api.tailscaleservice import TailscaleService

ANNOTATION_OWNERS: Final = "tailscale.com/owner-references"
"""The annotation of a Tailscale Service that lists its owners, as JSON."""

_OWNERS: Final = "ownerrefs"  # the JSON's names in lower case, because their case doesn't matter
_OPERATOR: Final = "operatorid"
_RESOURCE: Final = "resource"


class SoleOwner(NamedTuple):
    """An object of a cluster that is a Tailscale Service's only owner, such as a ProxyGroup of type kube-apiserver."""

    kind: str
    name: str
    uid: str


class Ownership(Enum):
    """The relation of one operator to a Tailscale Service."""

    FOREIGN = auto()
    """The Service has no owner, so a person or another program made it."""
    OURS = auto()
    """Only this operator owns the Service. For a `SoleOwner`: only that object does."""
    SHARED = auto()
    """This operator owns the Service, and others do, too."""
    OTHERS = auto()
    """Other operators own the Service. This operator can join them."""
    EXCLUSIVE = auto()
    """One object of a cluster, such as a ProxyGroup, is the Service's only owner."""
    TAKEN = auto()
    """Somebody else owns the Service, so the `SoleOwner` in question, which shares with nobody, can't get it."""
    UNREADABLE = auto()
    """The annotation isn't valid JSON."""

    @property
    def is_owner(self) -> bool:
        """True if this operator owns the Service."""
        return self in (Ownership.OURS, Ownership.SHARED)

    @property
    def may_write(self) -> bool:
        """True if this operator is allowed to change the Service."""
        return self in (Ownership.OURS, Ownership.SHARED, Ownership.OTHERS)


def ownership(service: TailscaleService, operator_id: str, owner: SoleOwner | None = None) -> Ownership:
    """Return the relation of the operator with the ID *operator_id* to *service*, whose annotations must be known.

    With an *owner*, which is one object of the operator's cluster, return the relation of that object.
    """
    found = _references(service.annotations or {})
    if found is None:
        return Ownership.UNREADABLE
    if not found:
        return Ownership.FOREIGN
    if owner is not None:
        is_ours = sole_owner(service, operator_id) == (owner.kind, owner.uid)
        return Ownership.OURS if is_ours else Ownership.TAKEN
    ours = [each for each in found if _is_of(each, operator_id)]
    if ours:
        return Ownership.SHARED if len(found) > len(ours) else Ownership.OURS
    return Ownership.EXCLUSIVE if _field(found[0], _RESOURCE) else Ownership.OTHERS


def sole_owner(service: TailscaleService, operator_id: str) -> tuple[str, str] | None:
    """Return the kind and the UID of the object that is the only owner of *service*; None if there is no such object.

    Only objects of the operator with the ID *operator_id* count.
    """
    found = _references(service.annotations or {}) or ()
    if len(found) != 1 or _field(found[0], _OPERATOR) != operator_id:
        return None
    resource = _field(found[0], _RESOURCE)
    return (str(_field(resource, "kind")), str(_field(resource, "uid"))) if isinstance(resource, dict) else None


def joined(annotations: Mapping[str, str], operator_id: str, owner: SoleOwner | None = None) -> dict[str, str]:
    """Return the *annotations* of a Tailscale Service with our operator, *operator_id*, among the owners.

    Without an *owner*, our operator is added at the end of the owners, unless it is among them already. An *owner* is
    an object in our operator's cluster: this object becomes the only owner, and all existing owners are removed.
    """
    found = _references(annotations) or []
    if owner is not None:
        reference = {"operatorID": operator_id, "resource": owner._asdict()}
        is_named = [(_field(each, _OPERATOR), _field(each, _RESOURCE)) for each in found] == [
            (operator_id, owner._asdict())
        ]
        return {**annotations} if is_named else {**annotations, ANNOTATION_OWNERS: _written([reference])}
    if any(_is_of(each, operator_id) for each in found):
        return {**annotations}
    return {**annotations, ANNOTATION_OWNERS: _written([*found, {"operatorID": operator_id}])}


def left(annotations: Mapping[str, str], operator_id: str) -> dict[str, str]:
    """Return the *annotations* of a Tailscale Service after the operator *operator_id* is removed from the owners."""
    found = _references(annotations) or []
    return {**annotations, ANNOTATION_OWNERS: _written([each for each in found if not _is_of(each, operator_id)])}


def _references(annotations: Mapping[str, str]) -> Sequence[Mapping[str, Any]] | None:
    """Return the owners in the *annotations* of a Tailscale Service; None if they can't be read."""
    return _parsed(annotations.get(ANNOTATION_OWNERS, ""))


@lru_cache(maxsize=4096)  # each look at a group reads the owners of all its Services, which are mostly the same
def _parsed(text: str) -> Sequence[Mapping[str, Any]] | None:
    """Return the owners in the *text* of an annotation; None if they can't be read. Callers must not change them."""
    if not text:
        return ()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = _field(document, _OWNERS) if isinstance(document, dict) else None
    if found is None and isinstance(document, dict):
        return ()
    return found if isinstance(found, list) and all(isinstance(each, dict) for each in found) else None


def _is_of(reference: Mapping[str, Any], operator_id: str) -> bool:
    """Tell whether *reference* names the operator *operator_id* itself as an owner, not one object of its cluster."""
    return bool(_field(reference, _OPERATOR) == operator_id) and not _field(reference, _RESOURCE)


def _field(document: Mapping[str, Any], name: str) -> Any:
    """Return the field of *document* whose name, in lower case, is *name*; None if there is none."""
    return next((value for key, value in document.items() if key.lower() == name), None)


def _written(references: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"ownerRefs": [*references]}, separators=(",", ":"))
