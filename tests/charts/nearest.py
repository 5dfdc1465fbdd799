"""Makes the schema of the chart's values refuse unknown names, and suggest known names that look similar.

JSON Schema can't measure how similar two names are. But it can compare names with patterns. So we write a pattern for
each known name: misspellings of the name match the pattern, and no known name matches it. Then Helm says of `hostnam`:
"value must be 'given as operatorConfig.hostname'". (`propertyNames` would be shorter, but with it Helm's message names
a wrong place.)
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tests.e2e.product import CHART

Schema = dict[str, Any]
Known = Mapping[str, list[str]]
"""A map from the last part of a value's path, such as `hostname`, to the paths of all values that end with it."""

SCHEMA = CHART / "values.schema.json"
OFF = 2  # letters by which a misspelt name may be longer or shorter
_NEAREST = "nearest"
_SEVERAL = ("", "operatorConfig", "proxyConfig")
"""The paths of the objects of values in which an unknown name gets suggestions from all objects.

`hostname` at the top level, for example, gets the suggestion `operatorConfig.hostname`.
"""


def written(schema: Schema) -> Schema:
    """Return *schema* with a suggestion for each property whose name is misspelt.

    Every object of the schema that lists its properties gets the patterns for these suggestions.
    """
    definitions = {name: _opened(found) for name, found in schema["definitions"].items() if name != _NEAREST}
    plain: Schema = _opened({**schema, "definitions": definitions})
    known: dict[str, list[str]] = {}
    for path, _ in places(plain):
        known.setdefault(path.rpartition(".")[2], []).append(path)
    closed: Schema = _closed(plain)
    for path in _SEVERAL:
        place = closed["properties"][path] if path else closed
        place["patternProperties"] = {
            f"^{name}$": _given_as(known[name]) for name in sorted(known.keys() - place["properties"].keys())
        }
    misspellings = {f"^({misspelt(name, known)})$": _given_as(known[name]) for name in sorted(known)}
    closed["definitions"][_NEAREST] = {"patternProperties": misspellings}
    return closed


def places(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the path of every value, such as `operatorConfig.extraEnv[].name`, and its schema."""
    yield from _places(schema, schema["definitions"])


def misspelt(name: str, known: Collection[str]) -> str:
    """Return a pattern that matches misspellings of *name*, but none of the *known* names.

    One half of such a misspelling is right, or, if *name* has more than five letters, its first and its last quarter.
    The rest has other letters, or is a little longer or shorter.
    """
    half, quarter = len(name) // 2, max(1, len(name) // 4)
    parts = [(name[:half], name[half:], ""), ("", name[:half], name[half:])]
    if len(name) > 5:
        parts.append((name[:quarter], name[quarter:-quarter], name[-quarter:]))
    found = [f"{before}{other}{after}" for before, wrong, after in parts for other in _others(wrong)]
    return "|".join(each for each in found if not any(re.fullmatch(each, right) for right in known))


def _others(part: str) -> Iterator[str]:
    """Yield patterns that match other texts than *part*: longer texts, shorter texts, and texts with another letter."""
    yield f".{{{len(part) + 1},{len(part) + OFF}}}"
    if len(part) > 1:
        yield f".{{{max(1, len(part) - OFF)},{len(part) - 1}}}"
    for place, letter in enumerate(part):
        yield f"{part[:place]}[^{letter}].{{{len(part) - place - 1}}}"


def _given_as(paths: list[str]) -> Schema:
    return {"const": f"given as {' or '.join(paths)}"}


def _opened(node: Any) -> Any:
    """Return *node*, a part of the schema, without what an earlier run of this program has added to it."""
    if not _lists_properties(node):
        return {key: _opened(value) for key, value in node.items()} if isinstance(node, dict) else node
    kept = {key: node[key] for key in node.keys() - {"additionalProperties", "patternProperties", "allOf"}}
    return {key: _opened(kept[key]) for key in node if key in kept}


def _closed(node: Any) -> Any:
    """Return *node*, a part of the schema, whose objects now refuse all names except the properties that they list."""
    found = {key: _closed(value) for key, value in node.items()} if isinstance(node, dict) else node
    if _lists_properties(node):
        found |= {"additionalProperties": False, "allOf": [{"$ref": f"#/definitions/{_NEAREST}"}]}
    return found


def _lists_properties(node: Any) -> bool:
    return isinstance(node, dict) and "type" in node and isinstance(node.get("properties"), dict)


def _places(node: Schema, definitions: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for name, child in node.get("properties", {}).items():
        below = f"{path}.{name}".removeprefix(".")
        found = definitions[child["$ref"].rpartition("/")[2]] if "$ref" in child else child
        yield below, found
        yield from _places(found, definitions, below)
        yield from _places(found.get("items", {}), definitions, f"{below}[]")


def as_text(schema: Schema) -> str:
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(as_text(written(json.loads(SCHEMA.read_text()))))
