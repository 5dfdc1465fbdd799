"""A check that the facts in README.md and the tests of this folder have the same numbers."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def test_the_tests_have_the_numbers_of_all_facts_in_the_readme_and_no_others() -> None:
    facts = re.findall(r"(?m)^(\d+)\. ", (FOLDER / "README.md").read_text())
    sources = "".join(path.read_text() for path in FOLDER.glob("test_*.py"))
    names = re.findall(r"(?m)^(?:async )?def test_((?:\d\d_)+)", sources)
    tested = {int(number) for name in names for number in re.findall(r"\d\d", name)}
    assert [int(fact) for fact in facts] == sorted(tested) == [*range(1, len(facts) + 1)]
