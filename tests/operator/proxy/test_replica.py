"""The replicas of a proxy."""

from tsoperator.proxy.replica import replicas_error


def test_a_proxy_has_at_most_a_hundred_replicas() -> None:
    errors = [replicas_error(count) for count in (0, 100, 101)]
    assert errors == ["", "", "spec.replicas must be at most 100, not 101: lower it"]
