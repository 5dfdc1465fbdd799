"""A share of the tests that are too many for each run of CI: another one with each commit."""

import hashlib
from collections.abc import Iterable

import pytest

SHARES = 6


def share_of(text: str) -> int:
    """Return the share, from 1 to `SHARES`, that a test has by its node ID, or that a commit chooses."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % SHARES + 1


def sampled(items: Iterable[pytest.Item], commit: str) -> list[pytest.Item]:
    """Return *items* without those marked `full` that aren't in the share that *commit* chooses.

    Of those marked `release` that is one module, since each of these is one story. One that is `thorough`, too, is left
    to a run of all tests.
    """
    everything = list(items)
    releases = sorted({item.path for item in everything if _has("release", item) and not _has("thorough", item)})
    release = releases[share_of(commit) % len(releases)] if releases else None

    def chosen(item: pytest.Item) -> bool:
        if _has("release", item):
            return item.path == release
        return not _has("full", item) or share_of(item.nodeid) == share_of(commit)

    return [item for item in everything if chosen(item)]


def _has(marker: str, item: pytest.Item) -> bool:
    return item.get_closest_marker(marker) is not None
