"""A test shows each difference from Tailscale's operator that docs/migration.md lists."""

import pytest

from tests.docs.differences import SHOWN_BY
from tests.docs.pages import DOCS, ROOT, functions_of

HEAD = "| Difference | What to do |"


def differences() -> list[str]:
    """Return the first cells of the tables of differences."""
    text = (DOCS / "migration.md").read_text()
    tables = (table.split("\n\n")[0].splitlines()[2:] for table in text.split(HEAD)[1:])
    return [row.split(" | ")[0].removeprefix("| ") for table in tables for row in table]


def test_each_documented_difference_from_the_go_operator_has_one_entry_in_the_table_of_its_tests() -> None:
    entries = {row: [start for start in SHOWN_BY if row.startswith(start)] for row in differences()}
    assert {row: found for row, found in entries.items() if len(found) != 1} == {}
    assert SHOWN_BY.keys() - {found[0] for found in entries.values()} == set()


@pytest.mark.parametrize("test", sorted({test for tests in SHOWN_BY.values() for test in tests}))
def test_the_test_that_the_table_names_for_a_difference_from_the_go_operator_exists(test: str) -> None:
    file, _, name = test.partition(" ")
    assert f"test_{name}" in functions_of(ROOT / "tests" / file)
