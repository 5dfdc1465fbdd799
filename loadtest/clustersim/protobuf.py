"""Reads the protobuf bodies that ``kubectl create namespace``, ``configmap`` and ``secret`` send; all else is JSON.

Field numbers are those of the ``generated.proto`` files of Kubernetes.
"""

import base64
from collections.abc import Iterator
from typing import Any

from clustersim.objects import Object

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

_Schema = dict[int, tuple[str, Any]]
"""Field number → name and type: a decoder, a schema for a message, a tuple of the value's decoder for a map."""


def _text(data: bytes) -> str:
    return data.decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_METADATA: _Schema = {
    1: ("name", _text),
    2: ("generateName", _text),
    3: ("namespace", _text),
    11: ("labels", (_text,)),
    12: ("annotations", (_text,)),
}
_ENVELOPE: _Schema = {1: ("type", {1: ("apiVersion", _text), 2: ("kind", _text)}), 2: ("raw", bytes)}
_KINDS: dict[tuple[str, str], _Schema] = {
    ("v1", "Namespace"): {1: ("metadata", _METADATA)},
    ("v1", "ServiceAccount"): {1: ("metadata", _METADATA)},
    ("v1", "ConfigMap"): {1: ("metadata", _METADATA), 2: ("data", (_text,)), 3: ("binaryData", (_base64,))},
    ("v1", "Secret"): {
        1: ("metadata", _METADATA),
        2: ("data", (_base64,)),
        3: ("type", _text),
        4: ("stringData", (_text,)),
    },
}


def decode(body: bytes) -> Object | None:
    """Return the object in *body*; None for a kind that isn't known here. Raises ValueError for what is no object."""
    if not body.startswith(_MAGIC):
        raise ValueError("not a protobuf object of Kubernetes")
    envelope = _message(body.removeprefix(_MAGIC), _ENVELOPE)
    kind = envelope.get("type", {})
    schema = _KINDS.get((kind.get("apiVersion", ""), kind.get("kind", "")))
    return None if schema is None else {**kind, **_message(envelope.get("raw", b""), schema)}


def _message(data: bytes, schema: _Schema) -> Object:
    message: Object = {}
    for number, value in _fields(data):
        name, kind = schema.get(number, ("", None))
        if kind is None or not value:
            continue
        if isinstance(kind, dict):
            message[name] = _message(value, kind)
        elif isinstance(kind, tuple):
            entry = dict(_fields(value))
            message.setdefault(name, {})[_text(entry.get(1, b""))] = kind[0](entry.get(2, b""))
        else:
            message[name] = kind(value)
    return message


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the length-delimited fields; the kinds above need no others."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case 5:
                at += 4
            case wire_type:
                raise ValueError(f"unknown wire type {wire_type}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("the message is cut off")
