"""The shares of the tests marked `full`: CI runs one share for each commit. After some commits, every share has run."""

from collections import Counter

import pytest

from tests.support.sample import SHARES, sampled, share_of

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers = full\n"
TESTS = """
import pytest

def test_plain(): ...

@pytest.mark.full
@pytest.mark.parametrize("number", range(60))
def test_full(number): ...

@pytest.mark.full(share=2)
@pytest.mark.parametrize("number", range(5))
def test_story(number): ...
"""


def commits() -> dict[int, str]:
    """Return for each share a commit that chooses it."""
    return {share_of(commit): commit for commit in (f"{number:040x}" for number in range(100))}


def test_a_test_marked_full_is_in_one_share_and_any_other_test_in_all_shares(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    items = pytester.getitems(TESTS)
    counts = {share: Counter(item.name for item in sampled(items, commit)) for share, commit in commits().items()}
    assert sum(counts.values(), Counter()) == {item.name: SHARES if item.name == "test_plain" else 1 for item in items}
    stories = {share: sum(name.startswith("test_story") for name in names) for share, names in counts.items()}
    assert stories == {share: 5 * (share == 2) for share in range(1, SHARES + 1)}


@pytest.mark.parametrize("share", [0, 7])
def test_a_mark_with_a_share_outside_of_the_range_is_refused(pytester: pytest.Pytester, share: int) -> None:
    pytester.makeini(INI)
    items = pytester.getitems(f"import pytest\n@pytest.mark.full(share={share})\ndef test_never(): ...")
    with pytest.raises(pytest.UsageError, match=f"there is no share {share}; give one from 1 to 6"):
        sampled(items, "a commit")


def test_the_shares_have_about_equal_numbers_of_tests() -> None:
    sizes = Counter(share_of(f"tests/operator/test_reissue.py::test_a_key[{number}]") for number in range(600))
    assert sorted(sizes) == list(range(1, SHARES + 1))
    assert 60 < min(sizes.values()) <= max(sizes.values()) < 140
