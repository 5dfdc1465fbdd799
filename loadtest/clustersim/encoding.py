"""Objects as bytes, each encoded once however many clients read or watch it."""

import json
from collections.abc import Sequence
from typing import Any

from clustersim.objects import BUILTIN_RESOURCES, Object, Resource

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

    def many(self, resource: Resource, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return a list of objects of the store."""
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        # The typed lists of a real API server leave these two out of their items.
        implied = {"apiVersion": resource.api_version, "kind": resource.kind} if resource in BUILTIN_RESOURCES else None
        prefix = encode(implied)[1:-1] + b"," if implied else b""
        items = b",".join(b"{" + self(obj)[1:].removeprefix(prefix) for obj in objects)
        return b'%b,"items":[%b]}' % (encode(head)[:-1], items)


def event(kind: str, obj: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
