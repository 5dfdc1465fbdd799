"""Label and field selectors, in the syntax of a query string."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.errors import bad_request
from clustersim.objects import Object, labels_of

_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>\S*)")
_EXISTS = re.compile(r"(?P<not>!?)\s*(?P<key>[^=!\s(),]+)")
_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a selector: *key* has to have one of *values*, or any value if *values* is None.

    If the requirement is *negated*, an object meets it if *key* is absent or has another value.
    """

    key: str
    values: frozenset[str] | None
    negated: bool = False

    def accepts(self, value: str | None) -> bool:
        """Tell whether *value*, which is None if the key is absent, meets the requirement."""
        found = value is not None and (self.values is None or value in self.values)
        return found != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses objects by their labels and fields."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, labels: str, fields: str) -> "Selector":
        """Return the selector that a query string describes by the texts of its parameters for *labels* and *fields*.

        Raises ApiError 400 if a text is invalid.
        """
        return cls(_parse(labels), _parse(fields))

    @property
    def name(self) -> str:
        """The name of the only object that the selector permits, or "" if it permits several names."""
        wanted = (part.values for part in self.fields if part.key == "metadata.name" and not part.negated)
        return next((name for names in wanted for name in names or ()), "")

    def matches(self, obj: Object) -> bool:
        """Tell whether the selector chooses *obj*."""
        labels: Mapping[str, str] = labels_of(obj) if self.labels else {}
        return all(part.accepts(labels.get(part.key)) for part in self.labels) and all(
            part.accepts(_field(obj, part.key)) for part in self.fields
        )


def _parse(text: str) -> tuple[Requirement, ...]:
    return tuple(_requirement(part.strip()) for part in _COMMA.split(text) if part.strip())


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], values, negated=match["operator"] == "notin")
    if match := _EQUAL.fullmatch(part):
        return Requirement(match["key"], frozenset({match["value"]}), negated=match["operator"] == "!=")
    if match := _EXISTS.fullmatch(part):
        return Requirement(match["key"], None, negated=bool(match["not"]))
    raise bad_request(f"unable to parse requirement: {part!r}")


def _field(obj: Object, path: str) -> str:
    """Return the value of the field at a dotted *path*, as a selector compares it, or "" if the field is absent."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
