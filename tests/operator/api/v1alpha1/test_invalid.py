"""The error messages for mistakes in a custom resource."""

from collections.abc import Sequence
from typing import Literal

import pytest
from pydantic import Field
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.wire import CustomResource


class Thing(CustomResource):
    letters: str = Field(default="a", pattern=r"^[a-z]{1,3}$")
    mode: Literal["in", "out"] = "in"
    short: str = Field(default="", max_length=3)
    some: list[int] = Field(default=[1], min_length=1)
    listed: Sequence[str] = ()


def thing(**fields: object) -> Thing | Invalid:
    return Thing.parse({"metadata": {"name": "a"}, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"letters": "A\nB"}, r'letters must match ^[a-z]{1,3}$, not "A\nB"'),
        ({"mode": "up"}, "mode must be 'in' or 'out', not \"up\""),
        ({"listed": "tag:a"}, 'listed must be a list, not "tag:a"'),
        ({"some": []}, "some must have at least 1 item, not []"),
        ({"short": "long"}, 'short must have at most 3 characters, not "long"'),
    ],
)
def test_an_error_in_a_custom_resource_is_one_line_with_the_field_the_rule_and_the_value(
    fields: dict[str, object], message: str
) -> None:
    assert thing(**fields) == Invalid(message)


def test_the_error_for_a_long_value_in_a_custom_resource_shortens_the_value() -> None:
    invalid = thing(letters="A" * 1000)
    assert isinstance(invalid, Invalid)
    assert len(invalid.message) < 200
