"""Strategic merge patch, done simply: the lists that kubectl merges by an identity, and its directives."""

from collections.abc import Hashable
from typing import Any

from clustersim.objects import Object

_IDENTITIES = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "secrets": ("name",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_PRIMITIVE_SETS = {"finalizers"}


def strategic_merge(target: Any, patch: Any) -> Any:
    """Return *target* with a strategic merge patch applied; shares what the patch doesn't touch."""
    if not isinstance(patch, dict):
        return patch
    fields = {name: value for name, value in patch.items() if not name.startswith("$")}
    if patch.get("$patch") == "replace":
        return fields
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in fields.items():
        _merge_field(merged, name, value)
    for name, value in patch.items():
        directive, _, field = name.partition("/")
        if directive == "$deleteFromPrimitiveList":
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif directive == "$setElementOrder":
            merged[field] = _ordered(field, merged.get(field) or [], value)
        elif directive == "$retainKeys":
            merged = {kept: item for kept, item in merged.items() if kept in value}
    return merged


def _merge_field(merged: Object, name: str, value: Any) -> None:
    if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
        merged.pop(name, None)
    elif isinstance(value, list):
        merged[name] = _merge_list(name, merged.get(name) or [], value)
    else:
        merged[name] = strategic_merge(merged.get(name), value)


def _merge_list(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if field in _PRIMITIVE_SETS:
        return [*target, *(item for item in patch if item not in target)]
    replacing = any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch)
    if replacing or any(_identity(field, item) is None for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    merged = {_identity(field, item): item for item in target}
    for item in patch:
        identity = _identity(field, item)
        if item.get("$patch") == "delete":
            merged.pop(identity, None)
        else:
            merged[identity] = strategic_merge(merged.get(identity), item)
    return list(merged.values())


def _identity(field: str, item: Any) -> Hashable:
    """Return what makes *item* the same in two versions of the list *field*; None if the list is replaced whole."""
    if not isinstance(item, dict):
        return None
    if field == "ports":
        port = item.get("containerPort", item.get("port"))
        return None if port is None else (port, item.get("protocol", "TCP"))
    keys = _IDENTITIES.get(field)
    return None if keys is None else tuple(item.get(key) for key in keys)


def _ordered(field: str, items: list[Any], order: list[Any]) -> list[Any]:
    """Sort *items* as *order* says, with those that it doesn't name last."""
    wanted = [item if field in _PRIMITIVE_SETS else _identity(field, item) for item in order]
    places = {identity: place for place, identity in enumerate(wanted)}

    def place(item: Any) -> int:
        return places.get(item if field in _PRIMITIVE_SETS else _identity(field, item), len(places))

    return sorted(items, key=place)
