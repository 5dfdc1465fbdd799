"""CI runs a share of the tests marked `full`, and all of them in the course of some commits."""

from collections import Counter

import pytest

from tests.support.sample import SHARES, sampled, share_of

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers = full\n  release\n"
PLAIN = """
import pytest

def test_plain(): ...

@pytest.mark.full
@pytest.mark.parametrize("number", range(60))
def test_full(number): ...
"""
RELEASE = """
import pytest

pytestmark = [pytest.mark.full, pytest.mark.release]

def test_before(): ...

def test_after(): ...
"""


def commits() -> list[str]:
    return list({share_of(commit): commit for commit in (f"{number:040x}" for number in range(100))}.values())


def test_a_full_test_is_in_one_share_and_another_in_all(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    items = pytester.getitems(PLAIN)
    counts = Counter(item.name for commit in commits() for item in sampled(items, commit))
    assert counts == {item.name: 1 if item.name.startswith("test_full") else SHARES for item in items}


def test_tests_of_a_release_are_chosen_by_module(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    files = pytester.makepyfile(test_back=RELEASE, test_next=RELEASE, test_uninstall=RELEASE).parent
    items, _ = pytester.inline_genitems(files)
    chosen = [Counter(item.path.name for item in sampled(items, commit)) for commit in commits()]
    assert all(list(counts.values()) == [2] for counts in chosen)
    assert {name for counts in chosen for name in counts} == {"test_back.py", "test_next.py", "test_uninstall.py"}


def test_shares_are_about_equal() -> None:
    sizes = Counter(share_of(f"tests/operator/test_reissue.py::test_a_key[{number}]") for number in range(600))
    assert sorted(sizes) == list(range(1, SHARES + 1))
    assert 60 < min(sizes.values()) <= max(sizes.values()) < 140
