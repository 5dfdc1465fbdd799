"""Rules for labels and annotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.labels import ANNOTATIONS_MAX, annotation_errors, label_errors, label_value


@pytest.mark.parametrize("key", ["a", "Team", "example.org/team", "a.b_c-d", "1", "x" * 63, f"{'a' * 253}/b"])
@pytest.mark.parametrize("value", ["", "x", "A-b_c.1", "y" * 63])
def test_a_valid_label_has_no_error(key: str, value: str) -> None:
    assert label_errors({key: value}) == []


@pytest.mark.parametrize(
    "key", ["", "-a", "a-", "x" * 64, "a b", "a/b/c", "Example.org/team", "/a", "a/", f"{'a' * 254}/b", "ä", "a\n"]
)
def test_the_error_for_a_bad_label_key_is_one_line_that_explains_the_format_of_keys(key: str) -> None:
    (error,) = label_errors({key: "x"})
    assert "\n" not in error
    assert ": a key is" in error or "DNS name in lower case" in error


@pytest.mark.parametrize("value", ["?!someVal", "-", "y" * 64, "a b", "bar!"])
def test_the_error_for_a_bad_label_value_names_the_value(value: str) -> None:
    (error,) = label_errors({"good": "x", "team": value})
    assert error.startswith(f'"{value}": a label\'s value is empty, or at most 63')


def test_an_annotation_can_have_upper_case_letters_in_its_prefix_and_any_value() -> None:
    assert annotation_errors({"Example.org/note": "any: ?!\n" * 100}) == []
    assert annotation_errors({"Example.org/?": "x"})[0].startswith('"Example.org/?"')


def test_the_total_size_of_annotations_is_limited() -> None:
    half = "ä" * (ANNOTATIONS_MAX // 4 - 1)
    assert annotation_errors({"ab": half, "cd": half}) == []
    assert "at most 262144" in annotation_errors({"ab": half, "cde": half})[0]


def test_a_label_value_that_is_too_long_ends_in_a_hash() -> None:
    assert label_value("x" * 63) == "x" * 63
    assert label_value("x" * 64) == "x" * 54 + "-7ce10097"


@given(st.text("abc", min_size=64, max_size=80), st.text("abc", min_size=64, max_size=80))
def test_long_label_values_are_cut_to_63_characters_and_different_values_stay_different(one: str, other: str) -> None:
    assert len(label_value(one)) == 63
    assert (label_value(one) == label_value(other)) == (one == other)
