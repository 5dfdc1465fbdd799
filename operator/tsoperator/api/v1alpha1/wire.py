"""The parts that all models of custom resources share: reading from the wire, and marks for their CRD schemas.

``kubectl explain`` shows the docstrings of fields. The default of a field is for our code only and isn't in the schema.
A default that the API server should fill in is marked with `SERVER_DEFAULT`. Further keywords of Kubernetes, such as
CEL rules, are ``json_schema_extra`` of a field or of a model's configuration.
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
"""A list that server-side apply replaces as a whole."""

ATOMIC_MAP: Final[Object] = {"x-kubernetes-map-type": "atomic"}
"""The schema keyword of an object that server-side apply replaces as a whole."""


def list_map_keywords(*names: str) -> dict[str, JsonValue]:
    """Return the schema keywords of a list whose items server-side apply tells apart by the fields *names*."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(names)}


def rules(*pairs: tuple[str, str]) -> dict[str, JsonValue]:
    """Return the schema keyword of CEL rules. A pair is a rule, and the message for an object that breaks it."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def immutable_keyword(message: str) -> dict[str, JsonValue]:
    """Return the schema keyword of an immutable field, with the *message* for a change of its value.

    If the field is optional, it can still be set later, or removed.
    """
    return rules(("self == oldSelf", message))


class WireModel(BaseModel):
    """A part of a custom resource. It has camelCase on the wire, ignores unknown fields, and never changes."""

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
        """Return the model of *obj*, or its faults."""
        try:
            return cls.model_validate(obj)
        except ValidationError as error:
            return invalid(error)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Marks a Kubernetes structure that must be valid as *model*.

    The field keeps the JSON unchanged, so that we can copy it.
    """

    model: type[WireModel]

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema with which pydantic validates, and from which it makes the JSON schema."""
        return core_schema.no_info_wrap_validator_function(_kept, handler.generate_schema(self.model))


def _kept(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    validate(value)
    return value
