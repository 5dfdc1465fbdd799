"""Tests of names in text form and in wire form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.errors import InvalidNameError
from tsnameserver.names import is_name, wire_name

LABELS = st.lists(st.text("abc-XYZ_019", min_size=1, max_size=63), min_size=1, max_size=3)
NO_TEXTS = ["", ".", "a..ts.net", "ts.net..", "..ts.net", "*.ts.net", "a.*.ts.net", f"{'a' * 64}.ts.net", "a" * 300]
NO_WIRES = [b"", b"\1", b"\1a", b"\2a\0", b"\1a\0\0", b"\1a\0b", b"\xc0\0", b"\x40" + b"a" * 64 + b"\0"]


@pytest.mark.parametrize("text", ["ts.net", "ts.net.", "TS.Net", ".ts.net"])
def test_texts_of_a_name_in_any_case_with_or_without_final_dot_have_the_same_wire_form(text: str) -> None:
    assert wire_name(text) == b"\x02ts\x03net\x00"


@pytest.mark.parametrize("text", [*NO_TEXTS, "b\u00fccher.ts.net", "\u212a.ts.net"])
def test_a_text_that_is_no_name_is_an_error(text: str) -> None:
    with pytest.raises(InvalidNameError):
        wire_name(text)


@given(LABELS)
def test_the_wire_form_of_a_name_has_its_labels_and_is_recognized_as_a_name(labels: list[str]) -> None:
    expected = b"".join(bytes([len(label)]) + label.lower().encode() for label in labels) + b"\0"
    assert wire_name(".".join(labels)) == expected
    assert is_name(expected)


@pytest.mark.parametrize("wire", NO_WIRES)
def test_bytes_that_are_no_name_in_wire_form_are_recognized_as_such(wire: bytes) -> None:
    assert not is_name(wire)


def test_a_name_has_at_most_255_bytes() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(wire_name(longest)) == 255
    assert is_name(wire_name(longest))
    assert not is_name((b"\x3f" + b"a" * 63) * 3 + b"\x3e" + b"b" * 62 + b"\0")
    with pytest.raises(InvalidNameError, match="longer than 255"):
        wire_name(longest + "b")
