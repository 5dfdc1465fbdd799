"""The schemas of Kubernetes' own kinds, which the kubernetes package has as pydantic models."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from clustersim.objects import BUILTIN_RESOURCES, EVENT, Object, Resource

REF = "#/components/schemas/"
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of an object with any fields."""

_NULL = {"type": "null"}
_KEPT = ("type", "format", "description", "required", "enum")
_FREE_FORM = ("JSONSchemaProps",)  # this schema refers to itself, and has fields with JSON of any form
_METADATA = "ObjectMeta"


@cache
def core_schemas() -> Mapping[str, Object]:
    """Return the schemas by name, such as ``ServiceSpec``. The schema of a kind has the name of the kind.

    The first call takes two seconds. References in the schemas begin with `REF`.
    """
    models = import_module("kubernetes.client.models")
    found: dict[str, Object] = {}
    for resource in BUILTIN_RESOURCES:
        model = getattr(models, f"CoreV1{resource.kind}" if resource is EVENT else f"V1{resource.kind}")
        schema = model.model_json_schema(by_alias=True)
        parts = schema.pop("$defs", {})
        found |= {_name(name): _plain(part) for name, part in parts.items() if _name(name) not in found}
        found[resource.kind] = _plain(schema)
    return {name: ANYTHING if name in _FREE_FORM else schema for name, schema in found.items()}


def core_schema(resource: Resource) -> Object:
    """Return the schema of *resource*, which is one of Kubernetes' own kinds."""
    return core_schemas()[resource.kind]


def metadata_schema() -> Object:
    """Return the schema of the metadata of every object."""
    return core_schemas()[_METADATA]


def _name(model: str) -> str:
    return model.removeprefix("Core").removeprefix("Rbac").removeprefix("V1")


def _plain(schema: Any) -> Object:
    """Return a structural schema for a schema of pydantic: without titles and defaults, and without null as a type."""
    choices = [each for each in schema.get("anyOf", ()) if each != _NULL]
    if len(choices) == 1:
        schema = {**schema, **choices[0]}
    elif {each.get("type") for each in choices} == {"integer", "string"}:
        schema = {**schema, "x-kubernetes-int-or-string": True}
    if "$ref" in schema:
        inner: Object = {"allOf": [{"$ref": REF + _name(schema["$ref"].rpartition("/")[2])}]}
    else:
        inner = {}
    inner |= {field: schema[field] for field in _KEPT if field in schema}
    if "description" in inner:
        inner["description"] = inner["description"].partition("\n\nAttributes:")[0].strip()
    if schema.get("x-kubernetes-int-or-string"):
        inner["x-kubernetes-int-or-string"] = True
    if "properties" in schema:
        inner["properties"] = {name: _plain(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        inner["items"] = _plain(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        inner["additionalProperties"] = _plain(schema["additionalProperties"])
    elif inner.get("type") == "object" and "properties" not in inner:
        inner |= ANYTHING
    return inner
