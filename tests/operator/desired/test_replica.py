"""How many replicas a proxy can have."""

import pytest
from tsoperator.desired.replica import replicas_error


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, ""), (100, ""), (101, "spec.replicas must be at most 100, not 101: lower it")],
)
def test_a_proxy_has_at_most_a_hundred_replicas(count: int, words: str) -> None:
    assert replicas_error(count) == words
