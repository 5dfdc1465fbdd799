"""Tests of names in text and on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.errors import InvalidNameError
from tsnameserver.names import wire_name

LABELS = st.lists(st.text("abc-XYZ_019", min_size=1, max_size=63), min_size=1, max_size=3)


@pytest.mark.parametrize("text", ["ts.net", "ts.net.", "TS.Net", ".ts.net"])
def test_spellings_of_one_name_have_one_wire_form(text: str) -> None:
    assert wire_name(text) == b"\x02ts\x03net\x00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..ts.net",
        "ts.net..",
        "..ts.net",
        f"{'a' * 64}.ts.net",
        "b\u00fccher.ts.net",
        "\u212a.ts.net",
        "a" * 300,
    ],
)
def test_a_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        wire_name(text)


def test_the_longest_name_is_of_255_bytes() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(wire_name(longest)) == 255
    with pytest.raises(InvalidNameError, match="longer than 255"):
        wire_name(longest + "b")


@given(LABELS)
def test_the_wire_form_holds_the_labels(labels: list[str]) -> None:
    expected = b"".join(bytes([len(label)]) + label.lower().encode() for label in labels) + b"\0"
    assert wire_name(".".join(labels)) == expected
