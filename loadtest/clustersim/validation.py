"""The checks of the simulated API server before it stores an object: the rules that an operator is likely to break."""

import re

from clustersim.errors import bad_request, invalid
from clustersim.objects import CONFIGMAP, DEPLOYMENT, SECRET, SERVICE, STATEFULSET, Object, Resource

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PATH_SEGMENT = re.compile(r"[^/%]+")
_QUALIFIED_NAME = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
_MAX_DATA = 1024 * 1024
_RBAC = "rbac.authorization.k8s.io"
_SCALABLE = {DEPLOYMENT: ("selector",), STATEFULSET: ("selector", "serviceName", "podManagementPolicy")}


def check_metadata(resource: Resource, obj: Object) -> None:
    """Check the names, labels and sizes of *obj*; raises ApiError."""
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    if not name:
        raise invalid(resource, "", "metadata.name", "Required value: name or generateName is required")
    if resource.namespaced and not metadata.get("namespace"):
        raise bad_request("an empty namespace may not be set during creation")
    if len(name) > 253 or not _name_pattern(resource).fullmatch(name):
        raise invalid(resource, name, "metadata.name", f'Invalid value: "{name}": not a valid name')
    _check_labels(resource, name, metadata)
    if resource in (CONFIGMAP, SECRET) and _data_size(obj) > _MAX_DATA:
        raise invalid(resource, name, "data", f"Too long: may not be more than {_MAX_DATA} bytes")


def check_update(resource: Resource, new: Object, old: Object) -> None:
    """Check that no immutable field changes; raises ApiError."""
    name = new["metadata"]["name"]
    for field in _SCALABLE.get(resource, ()):
        if new.get("spec", {}).get(field) != old.get("spec", {}).get(field):
            raise invalid(resource, name, f"spec.{field}", "Invalid value: field is immutable")
    if resource == SECRET and new.get("type") != old.get("type"):
        raise invalid(resource, name, "type", "Invalid value: field is immutable")
    if resource.group == _RBAC and new.get("roleRef") != old.get("roleRef"):
        raise invalid(resource, name, "roleRef", "Invalid value: cannot change roleRef")
    if "deletionTimestamp" in old["metadata"]:
        _check_no_new_finalizers(resource, name, new, old)


def _check_no_new_finalizers(resource: Resource, name: str, new: Object, old: Object) -> None:
    added = set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    if added:
        cause = f"Forbidden: no new finalizers can be added if the object is being deleted, found new {sorted(added)}"
        raise invalid(resource, name, "metadata.finalizers", cause)


def _check_labels(resource: Resource, name: str, metadata: Object) -> None:
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED_NAME.fullmatch(key) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise invalid(resource, name, "metadata.labels", f'Invalid value: "{key}={value}": not a valid label')
    for key, value in (metadata.get("annotations") or {}).items():
        if not _QUALIFIED_NAME.fullmatch(key.lower()) or not isinstance(value, str):
            raise invalid(resource, name, "metadata.annotations", f'Invalid value: "{key}": not a valid annotation')


def _name_pattern(resource: Resource) -> re.Pattern[str]:
    if resource == SERVICE:
        return _LABEL_1035
    return _PATH_SEGMENT if resource.group == _RBAC else _SUBDOMAIN


def _data_size(obj: Object) -> int:
    sections = (obj.get("data") or {}, obj.get("binaryData") or {})
    return sum(len(value.encode()) for section in sections for value in section.values())
