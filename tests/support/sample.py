"""Chooses a share of the tests marked `full`: they are too many for one run of CI, so each commit runs one share.

The node ID of a test marked `full` decides its share. If that would separate tests that build on each other, or put two
long tests together, the mark says the share: ``full(share=2)``.
"""

import hashlib
from collections.abc import Iterable

import pytest

SHARES = 6


def share_of(text: str) -> int:
    """Return the share, from 1 to `SHARES`, for *text*: the node ID of a test, or the ID of a commit."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % SHARES + 1


def sampled(items: Iterable[pytest.Item], commit: str) -> list[pytest.Item]:
    """Return *items* without those marked `full` that are in another share than the one that *commit* chooses.

    Raises `pytest.UsageError` for a mark with a share that doesn't exist.
    """
    return [item for item in items if _share(item) in {None, share_of(commit)}]


def _share(item: pytest.Item) -> int | None:
    """Return the share that a test is in, or None if it isn't marked `full`."""
    mark = item.get_closest_marker("full")
    if mark is None:
        return None
    share: int = mark.kwargs.get("share", share_of(item.nodeid))
    if not 1 <= share <= SHARES:
        raise pytest.UsageError(f"{item.nodeid}: there is no share {share}; give one from 1 to {SHARES}")
    return share
