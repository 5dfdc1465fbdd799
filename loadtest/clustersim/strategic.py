"""Strategic merge patches, which kubectl sends for Kubernetes' own kinds: lists of objects are merged by a key."""

from typing import Any

from clustersim.objects import Object

_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "ownerReferences": ("uid",),
    "readinessGates": ("conditionType",),
    "secrets": ("name",),
    "addresses": ("type",),
}
"""The keys by which lists of objects are merged, by the list's field. Kubernetes calls them ``patchMergeKey``."""
_SETS = ("finalizers",)
"""The fields with lists of strings. A patch adds its strings to such a list."""
_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_merge(target: Any, patch: Object) -> Object:
    """Return *target* with a strategic merge patch applied. The result and *target* share the unchanged parts."""
    if patch.get(_DIRECTIVE) == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    merged = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        merged = {name: value for name, value in merged.items() if name in patch[_RETAIN]}
    for field, value in patch.items():
        if field.startswith(_DELETE):
            name = field.removeprefix(_DELETE)
            merged[name] = [each for each in merged.get(name) or () if each not in value]
        elif field.startswith("$"):
            continue
        elif value is None or (isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"):
            merged.pop(field, None)
        elif isinstance(value, dict):
            merged[field] = strategic_merge(merged.get(field), value)
        elif isinstance(value, list):
            merged[field] = _merged_list(field, merged.get(field) or [], value, patch.get(_ORDER + field))
        else:
            merged[field] = value
    return merged


def _merged_list(field: str, target: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if field in _SETS and all(isinstance(each, str) for each in patch):
        return [*target, *(each for each in patch if each not in target)]
    key = next((key for key in _KEYS.get(field, ()) if _have(key, [*target, *patch])), "")
    if not key:
        return patch
    if any(each == {_DIRECTIVE: "replace"} for each in patch):
        return [each for each in patch if _DIRECTIVE not in each]
    found = {each[key]: each for each in target}
    for each in patch:
        if each.get(_DIRECTIVE) == "delete":
            found.pop(each[key], None)
        else:
            found[each[key]] = strategic_merge(found.get(each[key]), each)
    places = {each[key]: number for number, each in enumerate(order or ())}
    return sorted(found.values(), key=lambda each: places.get(each[key], len(places)))


def _have(key: str, items: list[Any]) -> bool:
    return all(isinstance(each, dict) and (key in each or each == {_DIRECTIVE: "replace"}) for each in items)
