"""Checks the fields of an object by the schema of its kind, if the client asks for ``fieldValidation=Strict``."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from clustersim.errors import ApiError, bad_request, invalid
from clustersim.objects import BUILTIN_RESOURCES, Object, Resource, name_of
from clustersim.openapi import resolved

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


class Mistake(NamedTuple):
    """A field that the schema of its object doesn't allow; *words* say why, and are empty for an unknown field."""

    path: str
    words: str = ""


def check_fields(resource: Resource, schema: Object, obj: Object) -> None:
    """Refuse an object with unknown fields, or with values that the *schema* of its kind doesn't allow.

    Raises ApiError: 400 for unknown fields, and also for a value of the wrong type if the kind is one of Kubernetes'
    own; 422 for all other wrong values.
    """
    mistakes = [*_mistakes(schema, {name: each for name, each in obj.items() if name != "status"}, "")]
    unknown = [f'unknown field "{mistake.path}"' for mistake in mistakes if not mistake.words]
    if unknown:
        raise _undecodable(resource, f"strict decoding error: {', '.join(unknown)}")
    for path, words in mistakes:
        if resource in BUILTIN_RESOURCES:
            raise _undecodable(resource, f"{path}: {words}")
        raise invalid(resource, name_of(obj), path, words)


def _undecodable(resource: Resource, words: str) -> ApiError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {words}'
    )


def _mistakes(schema: Object, value: Any, path: str) -> Iterator[Mistake]:
    schema = resolved(schema)
    if value is None:
        return
    if words := _refusal(schema, value):
        yield Mistake(path, words)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _mistakes(schema.get("items") or {}, each, f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from _mistakes_in_fields(schema, value, path)


def _mistakes_in_fields(schema: Object, value: Object, path: str) -> Iterator[Mistake]:
    known, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in value.items():
        place = f"{path}.{name}" if path else name
        if name in known:
            yield from _mistakes(known[name], each, place)
        elif isinstance(others, dict):
            yield from _mistakes(others, each, place)
        elif known and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield Mistake(place)
    for name in schema.get("required") or ():
        if value.get(name) is None:
            yield Mistake(f"{path}.{name}" if path else name, "Required value")


def _refusal(schema: Object, value: Any) -> str:
    """Return the reason why *schema* doesn't allow *value*, or an empty text if it does.

    Items and fields of *value* aren't checked.
    """
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return "" if isinstance(value, int | str) else "Invalid value: must be a number or a string"
    if wanted in _TYPES and (
        not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")
    ):
        return f'Invalid value: "{_type_of(value)}": must be of type {wanted}'
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(f'"{each}"' for each in schema["enum"])
        return f'Unsupported value: "{value}": supported values: {allowed}'
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"Invalid value: \"{value}\": should match '{schema['pattern']}'"
    return _refused_size(schema, value)


def _refused_size(schema: Object, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            return f"Invalid value: {value}: should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            return f"Invalid value: {value}: should be less than or equal to {schema['maximum']}"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        return f"Invalid value: {len(value)}: should have at least {schema['minItems']} items"
    return ""


def _type_of(value: Any) -> str:
    return next((name for name, types in _TYPES.items() if type(value) in types), "null")
