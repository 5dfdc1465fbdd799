"""Encodes objects as JSON. Each version of an object is encoded only once, even if many clients read or watch it."""

import json
from collections.abc import Sequence
from typing import Any

from clustersim.objects import BUILTIN_RESOURCES, Object, Resource

PARTIAL = "PartialObjectMetadata"
"""The kind of an object without its spec and status, for clients that asked only for metadata."""

_PARTIAL: Object = {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1"}
_REMEMBERED = 8192


def encode(value: Any) -> bytes:
    """Return *value* as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


class Encoder:
    """Encodes objects, and remembers the latest encoded texts by ``resourceVersion``.

    Two objects can have the same version if the store was restored to an older state between their writes. So the
    encoder also remembers the object of each text.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._encoded: dict[str, tuple[Object, bytes]] = {}
        self._remembered = remembered

    def __call__(self, obj: Object) -> bytes:
        """Return *obj*, which must have a ``resourceVersion``, as JSON; take the remembered text if there is one."""
        version = obj["metadata"]["resourceVersion"]
        remembered = self._encoded.get(version)
        if remembered is not None and remembered[0] is obj:
            return remembered[1]
        encoded = self.render(obj)
        self._encoded[version] = obj, encoded
        if len(self._encoded) > self._remembered:
            del self._encoded[next(iter(self._encoded))]
        return encoded

    def render(self, obj: Object) -> bytes:
        """Return *obj* as JSON, and don't remember the text."""
        return encode(obj)

    def bookmark(self, resource: Resource, revision: int) -> bytes:
        """Return the JSON of the object that a bookmark of a watch contains: its kind and its version."""
        metadata = {"resourceVersion": str(revision)}
        return encode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})

    def many(self, resource: Resource, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return the JSON of a list with *objects*, and with the list's *metadata*.

        The *objects* must have a ``resourceVersion``.
        """
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        # A real API server leaves these two fields out of the items of a list.
        implied = {"apiVersion": resource.api_version, "kind": resource.kind} if resource in BUILTIN_RESOURCES else None
        prefix = encode(implied)[1:-1] + b"," if implied else b""
        items = b",".join(b"{" + self(obj)[1:].removeprefix(prefix) for obj in objects)
        return b'%b,"items":[%b]}' % (encode(head)[:-1], items)


class MetadataEncoder(Encoder):
    """Encodes objects for clients that asked only for their metadata."""

    def render(self, obj: Object) -> bytes:
        """Return the metadata of *obj* as JSON."""
        return encode({**_PARTIAL, "metadata": obj["metadata"]})

    def bookmark(self, resource: Resource, revision: int) -> bytes:
        """Return the JSON of the object that a bookmark of a watch contains: its kind and its version."""
        return encode({**_PARTIAL, "metadata": {"resourceVersion": str(revision)}})

    def many(self, resource: Resource, metadata: Object, objects: Sequence[Object]) -> bytes:
        """Return the JSON of a list with the list's *metadata*, and only the metadata of *objects*.

        The *objects* must have a ``resourceVersion``.
        """
        head = {**_PARTIAL, "kind": f"{PARTIAL}List", "metadata": metadata}
        return b'%b,"items":[%b]}' % (encode(head)[:-1], b",".join(self(obj) for obj in objects))


def event(kind: str, obj: bytes) -> bytes:
    """Return the line that a watch sends for an event about *obj*.

    *kind* is the event's type, such as ADDED or BOOKMARK.
    """
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
