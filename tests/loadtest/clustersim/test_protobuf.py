"""The protobuf bodies that kubectl sends."""

import pytest
from clustersim.objects import Object
from clustersim.protobuf import decode


def field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def body(kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, "v1") + field(2, kind)) + field(2, raw)


METADATA = field(1, field(1, "a") + field(2, "") + field(3, "default") + field(11, field(1, "b") + field(2, "c")))


@pytest.mark.parametrize(
    ("raw", "kind", "content"),
    [
        (b"", "Namespace", {}),
        (field(2, field(1, "d") + field(2, "e")), "ConfigMap", {"data": {"d": "e"}}),
        (field(2, field(1, "d") + field(2, "e")), "Secret", {"data": {"d": "ZQ=="}}),
        (field(2, field(1, "d")) + field(3, "Opaque"), "Secret", {"data": {"d": ""}, "type": "Opaque"}),
        (b"\x28\x80\x01", "Namespace", {}),
    ],
)
def test_an_object_is_read(raw: bytes, kind: str, content: Object) -> None:
    metadata = {"name": "a", "namespace": "default", "labels": {"b": "c"}}
    assert decode(body(kind, METADATA + raw)) == {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def test_an_unknown_kind_is_none() -> None:
    assert decode(body("Pod", METADATA)) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"k8s\x00\x0a", b"k8s\x00\x0b"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"protobuf|cut off|wire type"):
        decode(data)
