"""The explanations in words for the regular expressions (`pattern`) in the CRDs."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tsoperator.api.crds import DEFINITIONS
from tsoperator.api.quantities import PATTERN
from tsoperator.api.v1alpha1 import patterns
from tsoperator.api.v1alpha1.patterns import WORDS


def patterns_in(schema: Any) -> Iterator[str]:
    """Yield the patterns in a JSON schema, except those of conditions, which only the operator writes."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        for name, value in schema.items():
            yield from patterns_in(value) if name != "Condition" else ()
    elif isinstance(schema, list):
        for each in schema:
            yield from patterns_in(each)


def test_every_pattern_of_a_spec_has_an_explanation() -> None:
    found = {pattern for each in DEFINITIONS for pattern in patterns_in(each.model.model_json_schema())}
    assert found - {PATTERN} == WORDS.keys()


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (patterns.TAG, ["tag:a", "tag:A-1"], ["a", "tag:", "tag:1a", "tag:-a", "tag:a.b"]),
        (patterns.CONNECTOR_HOSTNAME, ["ab", "1-2", "a" * 63], ["a", "A1", "-a", "a-", "a.b", "a" * 64]),
        (patterns.GROUP_HOSTNAME, ["a", "1-2", "a" * 63], ["", "A1", "-a", "a-", "a.b", "a" * 64]),
        (patterns.HOSTNAME_PREFIX, ["a", "a-", "a" * 62], ["", "-a", "A", "a.b", "a" * 63]),
        (patterns.LABEL_VALUE, ["", "a", "A-_.1"], ["-a", "a.", "a b", "a/b"]),
        (patterns.VARIABLE_NAME, ["a", "-", "_.A1"], ["", "1a", "a b"]),
        (patterns.SERVICE_ACCOUNT_NAME, ["a", "a-.b", "a" * 63], ["", "-a", "a.", "A", "a" * 64]),
        (patterns.ALLOCATION_ID, ["eipalloc-0f"], ["eipalloc-", "eipalloc-g", "0f"]),
        (patterns.SUBNET_ID, ["subnet-0f"], ["subnet-", "subnet-g", "0f"]),
    ],
)
def test_a_pattern_of_a_field_matches_the_texts_that_its_explanation_allows_and_no_other_texts(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    assert [bool(re.search(pattern, each)) for each in [*good, *bad]] == [True] * len(good) + [False] * len(bad)
