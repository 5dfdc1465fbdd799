"""A share of the tests that are too many for each run of CI: another one with each commit.

A test marked `full` is in a share by its node ID. Where that would tear a story apart, or put two long tests together,
its mark says the share: ``full(share=2)``.
"""

import hashlib
from collections.abc import Iterable

import pytest

SHARES = 6


def share_of(text: str) -> int:
    """Return the share, from 1 to `SHARES`, that a test has by its node ID, or that a commit chooses."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % SHARES + 1


def sampled(items: Iterable[pytest.Item], commit: str) -> list[pytest.Item]:
    """Return *items* without those marked `full` that aren't in the share that *commit* chooses.

    Raises `pytest.UsageError` for a mark whose share no commit chooses.
    """
    return [item for item in items if _share(item) in {None, share_of(commit)}]


def _share(item: pytest.Item) -> int | None:
    """Return the share that a test is in, None if it isn't marked `full`."""
    mark = item.get_closest_marker("full")
    if mark is None:
        return None
    share: int = mark.kwargs.get("share", share_of(item.nodeid))
    if not 1 <= share <= SHARES:
        raise pytest.UsageError(f"{item.nodeid}: there is no share {share}; give one from 1 to {SHARES}")
    return share
