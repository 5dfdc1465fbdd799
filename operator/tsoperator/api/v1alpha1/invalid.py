"""The faults of a custom resource, in words for its condition."""

import json
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tsoperator.api.v1alpha1.patterns import WORDS

_WORDS: Final = {
    "missing": "is required: add it",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "is_instance_of": "must be a list",
    "list_type": "must be a list",
    "sequence_str": "must be a list",
    "greater_than_equal": "must be at least {ge}",
    "too_short": "must have at least {min_length} item",
    "string_too_long": "must have at most {max_length} characters",
    "value_error": "is wrong: {error}",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
}
"""The words for errors, by pydantic's error types. Other errors are reported in pydantic's own words."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A custom resource that breaks a rule; *message* is one line that names the fields and how to fix them."""

    message: str


def invalid(error: ValidationError) -> Invalid:
    """Return *error* in words, with one sentence for each field."""
    return Invalid("; ".join(_sentence(detail) for detail in error.errors(include_url=False)))


def _sentence(detail: ErrorDetails) -> str:
    ours, context = _WORDS.get(detail["type"]), detail.get("ctx", {})
    words = ours.format(**context) if ours else f"is wrong: {detail['msg']}"
    words = WORDS.get(context.get("pattern", ""), words)
    found = "" if detail["type"] == "missing" else f", not {json.dumps(detail['input'], ensure_ascii=False)[:100]}"
    return f"{_path(detail['loc'])} {words}{found}"


def _path(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")
