"""The children of a parent: the labels that mark them, and the indexes that find them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tsoperator.api.names import (
    ADMISSION_EGRESS,
    ADMISSION_INGRESS,
    ANNOTATION_DIGEST,
    ANNOTATION_MAGIC_DNSNAME,
    LABEL_APP_INSTANCE,
    LABEL_APP_MANAGER,
    LABEL_APP_NAME,
    LABEL_MANAGED,
    LABEL_PARENT_NAME,
    LABEL_PARENT_NAMESPACE,
    LABEL_PARENT_TYPE,
    LABEL_PROXY_PARENT_NAME,
    LABEL_PROXY_PARENT_NAMESPACE,
    LABEL_PROXY_TYPE,
    MANAGED,
    MANAGER,
    PARENT_CONNECTOR,
    PARENT_INGRESS,
    PARENT_PEERRELAY,
    PARENT_PROXYGROUP,
    PARENT_RECORDER,
    PARENT_SERVICE,
    PROXY_GROUP,
    SECRET_CAPABILITY_VERSION,
    SECRET_CURRENT_PROFILE,
    SECRET_DEVICE_ID,
    SECRET_POD_UID,
    TYPE_CONNECTOR,
    TYPE_EGRESS_SERVICE,
    TYPE_INGRESS_RESOURCE,
    TYPE_INGRESS_SERVICE,
    TYPE_PROXYGROUP,
)
from tsoperator.api.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    CONNECTOR,
    INGRESS,
    PEERRELAY,
    PROXYGROUP,
    RECORDER,
    SECRET,
    SERVICE,
    Key,
    Object,
    Resource,
    annotations,
    by_age,
    is_deleting,
    key_of,
    labels,
)
from tsoperator.api.rules import child_base_name, peer_relay_name

BY_OWNER = "owner"
"""The index by which children are found; its values are `str(Owner)`."""

BY_METRICS_OWNER = "metrics-owner"
"""The index of metrics Services and ServiceMonitors, which have labels of their own; its values are `str(Owner)`."""

BY_GROUPED_OWNER = "grouped-owner"
"""The index of the children that were made for parents which a ProxyGroup serves; its values are `str(Owner)`.

Such a parent is, for example, an egress Service that names a ProxyGroup.
"""

_PARENTS = {
    TYPE_EGRESS_SERVICE: PARENT_SERVICE,
    TYPE_INGRESS_SERVICE: PARENT_SERVICE,
    TYPE_INGRESS_RESOURCE: PARENT_INGRESS,
    TYPE_CONNECTOR: PARENT_CONNECTOR,
    TYPE_PROXYGROUP: PARENT_PROXYGROUP,
}

OWNER_TYPES = {
    SERVICE: PARENT_SERVICE,
    INGRESS: PARENT_INGRESS,
    CONNECTOR: PARENT_CONNECTOR,
    PROXYGROUP: PARENT_PROXYGROUP,
    RECORDER: PARENT_RECORDER,
    PEERRELAY: PARENT_PEERRELAY,
}
"""The kinds whose objects have proxies, each with its name in the labels of the proxies."""

_TITLES = {type_: resource.kind for resource, type_ in OWNER_TYPES.items()}

RECORDERS = {LABEL_APP_MANAGER: MANAGER, LABEL_APP_NAME: PARENT_RECORDER}
"""The labels that the children of all Recorders have. These children have no label `LABEL_MANAGED`."""

OF_RECORDERS = ",".join(f"{name}={value}" for name, value in RECORDERS.items())
"""The label selector of the children of Recorders."""
_MARKS = {LABEL_MANAGED, LABEL_PARENT_NAME, LABEL_PARENT_NAMESPACE, LABEL_PARENT_TYPE}
_WITHOUT_NAMESPACE = (PARENT_PROXYGROUP, PARENT_PEERRELAY)
"""The types of owners whose children have no label for a namespace, because these owners have none."""
_AFTER_STEM = re.compile(r"-+[a-z0-9]+(-\d+|-metrics)?")
_OF_PEERRELAY = re.compile(r"(-\d+(-config)?)?")
_STATE = {SECRET_DEVICE_ID, SECRET_POD_UID, SECRET_CAPABILITY_VERSION, SECRET_CURRENT_PROFILE}


@dataclass(frozen=True, slots=True)
class Owner:
    """The parent of children, as their labels tell it (there are no owner references across namespaces)."""

    type: str
    key: Key

    def __str__(self) -> str:
        return f"{self.type}:{self.key.namespace}/{self.key.name}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels that each child of this owner has.

        For some kinds of owners, no label names the namespace. The children of a Recorder have other labels.
        """
        if self.type == PARENT_RECORDER:
            return {**RECORDERS, LABEL_APP_INSTANCE: self.key.name}
        found = {
            LABEL_MANAGED: MANAGED,
            LABEL_PARENT_NAME: self.key.name,
            LABEL_PARENT_NAMESPACE: self.key.namespace,
            LABEL_PARENT_TYPE: self.type,
        }
        if self.type in _WITHOUT_NAMESPACE:
            del found[LABEL_PARENT_NAMESPACE]
        return found


def owner_of(child: Object) -> Owner | None:
    """Return the owner that the labels of *child* name; None if they name none, or a ProxyGroup serves the parent."""
    found = labels(child)
    return None if found.get(PROXY_GROUP) else _labelled_owner(found)


def parent_title(child: Object) -> str:
    """Return the kind and the name of the parent of *child*, or of *child* itself if its labels name no parent."""
    owner = owner_of(child)
    return f"{_TITLES.get(owner.type, owner.type)} {owner.key}" if owner else f"{child['kind']} {key_of(child)}"


def grouped_owner_of(child: Object) -> Owner | None:
    """Return the parent for which *child* was made, such as a Service; None unless a ProxyGroup serves that parent."""
    found = labels(child)
    return _labelled_owner(found) if found.get(PROXY_GROUP) else None


def metrics_owner_of(child: Object) -> Owner | None:
    """Return the owner of the proxy whose metrics *child* exports; None if *child* exports no metrics.

    The labels have the whole name of the owner, because a parent whose name is too long for a label has no proxy.
    """
    found = labels(child)
    kind = _PARENTS.get(found.get(LABEL_PROXY_TYPE, ""))
    if found.get(LABEL_MANAGED) != MANAGED or kind is None:
        return None
    return _owner(kind, found.get(LABEL_PROXY_PARENT_NAMESPACE, ""), found.get(LABEL_PROXY_PARENT_NAME, ""))


def within(namespace: str, index: Callable[[Object], Iterable[str]]) -> Callable[[Object], Iterable[str]]:
    """Return *index* restricted to the objects in the operator's *namespace*, because labels elsewhere aren't ours."""

    def restricted(child: Object) -> Iterable[str]:
        return index(child) if child["metadata"].get("namespace", "") == namespace else ()

    return restricted


def by_owner(child: Object) -> Iterable[str]:
    """Return the values for the index `BY_OWNER`: the owner of *child*, or nothing."""
    owner = owner_of(child)
    return (str(owner),) if owner else ()


def by_grouped_owner(child: Object) -> Iterable[str]:
    """Return the values for the index `BY_GROUPED_OWNER`: the parent of *child* if a ProxyGroup serves it."""
    owner = grouped_owner_of(child)
    return (str(owner),) if owner else ()


def by_metrics_owner(child: Object) -> Iterable[str]:
    """Return the values for the index `BY_METRICS_OWNER`: the owner of the proxy whose metrics *child* exports."""
    owner = metrics_owner_of(child)
    return (str(owner),) if owner else ()


def parent_of(child: Object, namespace: str) -> Owner | None:
    """Return the parent that the labels of *child* name; None if they name none.

    The labels of an object outside of the operator's *namespace* don't count.
    """
    if child["metadata"].get("namespace", "") != namespace:
        return None
    return _labelled_owner(labels(child)) or metrics_owner_of(child)


def is_child(obj: Object, namespace: str) -> bool:
    """Tell whether *obj* was made for a parent: it is in the operator's *namespace*, and its labels say so."""
    return parent_of(obj, namespace) is not None


def owned_keys(child: Object, owner_type: str, namespace: str) -> Iterable[Key]:
    """Return the key of the parent of *child* if the parent is of *owner_type*; otherwise none.

    The labels of an object outside of the operator's *namespace* name no parent.
    """
    found = labels(child)
    if _labels_name_parent(found) and found.get(LABEL_PARENT_TYPE) != owner_type:
        return ()  # most changes concern children of another type, and each change is given to the mapper of each type
    owner = parent_of(child, namespace)
    return (owner.key,) if owner and owner.type == owner_type else ()


def is_marked(obj: Object) -> bool:
    """Tell whether an operator or a proxy made *obj*.

    Objects that an operator made have its labels or annotations. A Secret that a proxy made has keys that only
    proxies write: the Go operator's Role lets a proxy create its Secret again after somebody has deleted it. An
    admission policy of a namespace is known only by its name, because the Go operator gave it no labels.
    """
    if {ANNOTATION_DIGEST, ANNOTATION_MAGIC_DNSNAME} & annotations(obj).keys() or _MARKS & labels(obj).keys():
        return True
    if _recorder_of(labels(obj)) is not None:
        return True
    if obj["kind"] in (ADMISSIONPOLICY.kind, ADMISSIONBINDING.kind):
        name = key_of(obj).name
        return name.startswith((ADMISSION_INGRESS, ADMISSION_EGRESS)) and obj["spec"].get("policyName", name) == name
    return obj["kind"] == SECRET.kind and bool(_STATE & (obj.get("data") or {}).keys())


def is_anothers(obj: Object, owner: Owner) -> bool:
    """Tell whether *obj*, which has a name that a child of *owner* needs, belongs to somebody else than *owner*.

    The owner reference of *obj* decides. Without one, the owner that the labels of *obj* name decides.
    """
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return (reference["kind"].lower(), reference["name"]) != (owner.type, owner.key.name)
    named = _labelled_owner(labels(obj)) or metrics_owner_of(obj)
    return named not in (None, owner)


def in_the_way(stranger: Object) -> str:
    """Return the message that *stranger* has a name that a child of ours needs, and what the user can do."""
    return (
        f"{stranger['kind']} {key_of(stranger)} is in the way: it is not the operator's, or belongs to another object, "
        "so it is left alone; delete it if nothing needs it, or make this object under another name"
    )


def is_named_after(child: Object, owner: Owner) -> bool:
    """Tell whether *child* has a name that we or the Go operator give to children of *owner*.

    The labels of *child* prove nothing, because somebody can edit them to name another parent.
    """
    name, parent = key_of(child).name, owner.key.name
    stem, rest = child_base_name(parent), _AFTER_STEM
    if owner.type == PARENT_PEERRELAY:
        stem, rest = peer_relay_name(parent), _OF_PEERRELAY
    return name.startswith(stem) and rest.fullmatch(name, len(stem)) is not None


def owner_reference(resource: Resource, name: str, uid: str) -> Object:
    """Return the controller reference to the owner *name*, which is cluster-scoped or in the namespace of the child."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def first(objects: Iterable[Object]) -> Object | None:
    """Return the child to use if *objects* has several children of one kind; None if it has none.

    Prefer a child that isn't being deleted, and among several such children the oldest one, so that all callers
    get the same child.
    """
    found = [*objects]
    if len(found) <= 1:
        return found[0] if found else None
    return min(found, key=lambda obj: (is_deleting(obj), by_age(obj)))


@lru_cache(maxsize=8192)  # each change of a child asks for its owner several times
def _owner(type_: str, namespace: str, name: str) -> Owner:
    return Owner(type_, Key(namespace, name))


def _labelled_owner(found: Mapping[str, str]) -> Owner | None:
    """Return the owner that the labels *found* name; None if they name none."""
    if not _labels_name_parent(found):
        return _recorder_of(found)
    type_ = found.get(LABEL_PARENT_TYPE, "")
    # The children of such owners don't have this label, so ignore it if somebody has put it there.
    namespace = "" if type_ in _WITHOUT_NAMESPACE else found.get(LABEL_PARENT_NAMESPACE, "")
    return _owner(type_, namespace, found[LABEL_PARENT_NAME])


def _labels_name_parent(found: Mapping[str, str]) -> bool:
    """Tell whether the labels *found* name a parent other than a Recorder, whose children have labels of their own."""
    return found.get(LABEL_MANAGED) == MANAGED and bool(found.get(LABEL_PARENT_NAME))


def _recorder_of(found: Mapping[str, str]) -> Owner | None:
    """Return the Recorder that the labels *found* name; None if they name none."""
    name = found.get(LABEL_APP_INSTANCE)
    return _owner(PARENT_RECORDER, "", name) if name and RECORDERS.items() <= found.items() else None
