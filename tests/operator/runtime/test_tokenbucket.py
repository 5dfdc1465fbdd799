"""The limit that lets some through at once, and then one every so often."""

import pytest
from tsoperator.runtime.tokenbucket import TokenBucket


def took(bucket: TokenBucket, size: int, now: float) -> int:
    """Return how many tokens there are, all of which are taken."""
    count = 0
    while not bucket.wait(size, now):
        bucket.take()
        count += 1
    return count


@pytest.mark.parametrize(("passed", "tokens"), [(0, 0), (29, 0), (30, 1), (59, 1), (60, 2), (1000, 3)])
def test_a_bucket_is_full_at_first_and_gets_tokens_back_one_by_one(passed: float, tokens: int) -> None:
    bucket = TokenBucket(30, 3, 100)
    assert [took(bucket, 3, now) for now in (100, 100 + passed)] == [3, tokens]


def test_an_empty_bucket_says_how_long_to_wait() -> None:
    bucket = TokenBucket(30, 1, 100)
    bucket.take()
    assert [bucket.wait(1, now) for now in (100, 120, 130)] == [30, pytest.approx(10), 0]


def test_a_bucket_that_grows_is_not_filled_and_one_that_shrinks_is_cut() -> None:
    bucket = TokenBucket(30, 1, 100)
    assert took(bucket, 3, 100) == 1
    assert took(bucket, 3, 190) == 3
    assert took(bucket, 1, 300) == 1
