"""Objects as bytes, each encoded once however many clients read or watch it."""

import json
from collections.abc import Sequence
from typing import Any

from clustersim.objects import BUILTIN_RESOURCES, Object, Resource
from clustersim.tables import table

_REMEMBERED = 8192


def encode(value: Any) -> bytes:
    """Return *value* as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


class Encoder:
    """Encodes objects, remembering the latest by their ``resourceVersion``; two share one only after a restore."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._encoded: dict[str, tuple[Object, bytes]] = {}
        self._remembered = remembered

    def __call__(self, obj: Object) -> bytes:
        """Return *obj*, which lies in the store, as JSON."""
        version = obj["metadata"]["resourceVersion"]
        remembered = self._encoded.get(version)
        if remembered is not None and remembered[0] is obj:
            return remembered[1]
        encoded = encode(obj)
        self._encoded[version] = obj, encoded
        if len(self._encoded) > self._remembered:
            del self._encoded[next(iter(self._encoded))]
        return encoded


class Plain:
    """Shows objects of a kind as they are."""

    def __init__(self, encoder: Encoder, resource: Resource) -> None:
        self._encoder = encoder
        self._resource = resource
        # The typed lists of a real API server leave these two out of their items.
        implied = {"apiVersion": resource.api_version, "kind": resource.kind} if resource in BUILTIN_RESOURCES else None
        self._implied = encode(implied)[1:-1] + b"," if implied else b""

    def one(self, obj: Object) -> bytes:
        """Return an object of the store."""
        return self._encoder(obj)

    def unstored(self, obj: Object) -> bytes:
        """Return an object that doesn't lie in the store like this."""
        return encode(obj)

    def many(self, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return a list."""
        head = {"kind": f"{self._resource.kind}List", "apiVersion": self._resource.api_version, "metadata": metadata}
        items = b",".join(b"{" + self._encoder(obj)[1:].removeprefix(self._implied) for obj in objects)
        return b'%b,"items":[%b]}' % (encode(head)[:-1], items)


class Tabular:
    """Shows objects of a kind as tables; *include* says what of each comes with its row."""

    def __init__(self, resource: Resource, include: str) -> None:
        self._resource = resource
        self._include = include

    def one(self, obj: Object) -> bytes:
        """Return a table of one object."""
        return self.many({"resourceVersion": obj["metadata"].get("resourceVersion", "")}, [obj])

    def unstored(self, obj: Object) -> bytes:
        """Return a table of one object."""
        return self.one(obj)

    def many(self, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return a table."""
        return encode(table(self._resource, objects, metadata, self._include))


View = Plain | Tabular


def event(kind: str, obj: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
