"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from typing import Any

from clustersim.errors import unprocessable
from clustersim.objects import clone


def merge_patch(target: Any, patch: Any) -> Any:
    """Return *target* with a JSON merge patch applied; shares what the patch doesn't touch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = merge_patch(merged.get(field), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """Return a copy of *target* with a JSON patch applied; a 422 ApiError if one of its operations can't be."""
    if not isinstance(operations, list):
        raise unprocessable("a JSON patch is a list of operations")
    document = {"": clone(target)}
    for operation in operations:
        try:
            _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise unprocessable(f"{operation}: {error!r}") from error
    return document[""]


def _operate(document: dict[str, Any], operation: dict[str, Any]) -> None:
    kind, path = operation["op"], _pointer(operation["path"])
    match kind:
        case "add":
            _add(document, path, clone(operation["value"]))
        case "remove":
            _remove(document, path)
        case "replace":
            _remove(document, path)
            _add(document, path, clone(operation["value"]))
        case "move":
            _add(document, path, _remove(document, _pointer(operation["from"])))
        case "copy":
            _add(document, path, clone(_at(document, _pointer(operation["from"]))))
        case "test":
            if _at(document, path) != operation["value"]:
                raise ValueError("test failed")
        case _:
            raise ValueError("unknown operation")


def _pointer(text: str) -> list[str]:
    """Split a JSON pointer (RFC 6901); the document itself lies at the key ``""``."""
    first, *rest = text.split("/")
    if first:
        raise ValueError(f"not a JSON pointer: {text}")
    return ["", *(part.replace("~1", "/").replace("~0", "~") for part in rest)]


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    return document


def _add(document: Any, path: list[str], value: Any) -> None:
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if not 0 <= index <= len(parent):
            raise IndexError(last)
        parent.insert(index, value)
    else:
        parent[last] = value


def _remove(document: Any, path: list[str]) -> Any:
    parent, last = _at(document, path[:-1]), path[-1]
    return parent.pop(int(last) if isinstance(parent, list) else last)
