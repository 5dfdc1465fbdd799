"""The nodes in the schemas of CRDs. In a path, ``a.b`` is a property, ``a[]`` a list's item, ``a{}`` a map's value."""

from collections.abc import Iterator

from tsoperator.api.objects import Object


def children(node: Object) -> dict[str, Object]:
    """Return the schemas right below *node*, by the part that each adds to the path."""
    found = {f".{name}": child for name, child in node.get("properties", {}).items()}
    inner = {"[]": node.get("items"), "{}": node.get("additionalProperties")}
    return found | {mark: child for mark, child in inner.items() if child is not None}


def nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield *schema* and every schema below it, with their paths."""
    yield path, schema
    for mark, child in children(schema).items():
        yield from nodes(child, (path + mark).removeprefix("."))
