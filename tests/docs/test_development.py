"""The names of modules, paths and functions on the pages for developers exist."""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import DOCS, ROOT, codes, name_of, prose

PAGES: Final = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "development").glob("*.md"))]
MODULE: Final = re.compile(r"(tsoperator|tsnameserver|clustersim|tests)(\.\w+)+")
PATH: Final = re.compile(r"tests/[\w/.]+")
FUNCTION: Final = re.compile(r"[a-z]+(_[a-z]+)+")
SOURCES: Final = [ROOT / "operator", ROOT / "nameserver", ROOT / "loadtest"]
EXAMPLE: Final = re.compile(r"\bthing\b")
"""The name of the example kind in CONTRIBUTING.md, which shows how to add a kind."""


@cache
def words() -> set[str]:
    """Return the words in all sources and tests, and the names of their files."""
    files = [path for folder in (*SOURCES, ROOT / "tests") for path in folder.rglob("*.py")]
    return {path.stem for path in files}.union(*(re.findall(r"\w+", path.read_text()) for path in files))


def is_missing(code: str) -> bool:
    if MODULE.fullmatch(code):
        module = Path(*code.split("."))
        places = [folder / path for folder in (*SOURCES, ROOT) for path in (module, module.with_suffix(".py"))]
        return not (EXAMPLE.search(code) or any(place.exists() for place in places))
    if PATH.fullmatch(code):
        return not (ROOT / code).exists()
    return FUNCTION.fullmatch(code) is not None and code not in words()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_modules_paths_and_functions_that_a_page_for_developers_names_exist(page: Path) -> None:
    assert list(filter(is_missing, codes(prose(page.read_text())))) == []


def test_the_check_of_pages_for_developers_finds_names_of_code_that_does_not_exist() -> None:
    function = "_".join(["never", "defined"])
    assert all(map(is_missing, ["tests/nowhere", "tsoperator.nowhere", function]))
