"""The rules that the models of all custom resources share."""

from typing import Annotated

import pytest
from pydantic import Field, ValidationError
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.wire import CustomResource, Embedded, WireModel


class Part(WireModel):
    exact_size: int


class Thing(CustomResource):
    part: Annotated[Object, Embedded(Part)] = Field(default_factory=dict)


def test_an_embedded_structure_is_checked_and_keeps_fields_that_its_model_does_not_have() -> None:
    wire: Object = {"exactSize": 1, "newInKubernetes": True}
    thing = Thing.parse({"metadata": {"name": "a"}, "part": wire})
    assert isinstance(thing, Thing)
    assert thing.part == wire
    assert Thing.parse({"metadata": {"name": "a"}, "part": {}}) == Invalid("part.exactSize is required: add it")


@pytest.mark.parametrize("content", [{"exact_size": 1}, *({"exactSize": value} for value in ("1", 1.0, True, None))])
def test_a_model_accepts_a_field_only_with_the_name_and_the_type_that_it_has_in_json(content: Object) -> None:
    with pytest.raises(ValidationError, match="exactSize"):
        Part.model_validate(content)
