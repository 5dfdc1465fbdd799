"""The parts that all models of custom resources share: reading from the wire, and marks for their CRD schemas.

A field's docstring is what ``kubectl explain`` shows. A field's default is the code's and stays out of the schema; one
that the API server should fill in is marked with `SERVER_DEFAULT`. Further keywords of Kubernetes, CEL rules among
them, are ``json_schema_extra`` of a field or of a model's configuration.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.invalid import Invalid, invalid

Item = TypeVar("Item")

SERVER_DEFAULT: Final = "x-server-default"
"""The schema keyword for a default that the API server fills in; becomes ``default`` in the CRD."""

Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
AtomicList = Annotated[list[Item], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]
"""A list that server-side apply replaces whole."""

ATOMIC_MAP: Final[Object] = {"x-kubernetes-map-type": "atomic"}
"""For objects that server-side apply replaces whole."""


def list_map_keywords(*names: str) -> dict[str, JsonValue]:
    """Return the keywords of a list of objects which server-side apply tells apart by the fields *names*."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(names)}


def rules(*pairs: tuple[str, str]) -> dict[str, JsonValue]:
    """Return the keyword of CEL rules, each with what is said when it is broken."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def immutable_keyword(message: str) -> dict[str, JsonValue]:
    """Return the keyword of a field whose value can't be changed; an optional one can be set later, or taken away."""
    return rules(("self == oldSelf", message))


class WireModel(BaseModel):
    """Part of a custom resource: camelCase on the wire, unknown fields ignored, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )


class Metadata(WireModel):
    """The part of an object's metadata that decisions need."""

    name: str
    uid: str = ""
    generation: int = 0


class CustomResource(WireModel):
    """A custom resource; a kind adds ``spec`` and ``status``."""

    metadata: Metadata

    @classmethod
    def parse(cls, obj: Object) -> Self | Invalid:
        """Return the model of *obj*, or what is wrong with it."""
        try:
            return cls.model_validate(obj)
        except ValidationError as error:
            return invalid(error)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Marks a Kubernetes structure that must be valid as *model*, but is kept as it is on the wire, to be copied."""

    model: type[WireModel]

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema that pydantic validates with, and makes the JSON schema from."""
        return core_schema.no_info_wrap_validator_function(_kept, handler.generate_schema(self.model))


def _kept(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    validate(value)
    return value
