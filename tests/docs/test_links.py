"""Links between pages have existing targets, and all pages that other files cite exist."""

import re
from pathlib import Path
from subprocess import check_output
from typing import Final

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, name_of

CITATION: Final = re.compile(r"[\w./-]*[\w-]\.md\b")
URL: Final = re.compile(r"https?://\S+")
MADE_BY_TESTS: Final = {"page.md", "other.md"}


def missing(page: Path) -> list[str]:
    lost = []
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            lost.append(link)
    return lost


def cited(text: str) -> set[str]:
    """Return the paths of the pages that *text* names, without leading dots."""
    return {name.lstrip("./") for name in CITATION.findall(URL.sub("", text))}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_target_of_every_relative_link_in_the_docs_exists(page: Path) -> None:
    assert missing(page) == []


def test_the_check_of_links_finds_a_link_without_a_target(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n[1](#a-b) [2](page.md) [3](other.md) [4](#c) [5](https://example.org)\n```\n[6](x)\n```\n")
    assert missing(page) == ["other.md", "#c"]


def test_every_page_of_the_docs_that_a_file_of_the_repository_cites_exists() -> None:
    """A citation is the path of the page, or the end of that path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = filter(None, check_output(command, cwd=ROOT, text=True, timeout=30).split("\0"))
    files = [path for path in map(Path, names) if (ROOT / path).is_file()]
    ends = {"/".join(path.parts[start:]) for path in files for start in range(len(path.parts))}
    lost = {str(path): cited((ROOT / path).read_text(errors="ignore")) - ends - MADE_BY_TESTS for path in files}
    assert {path: found for path, found in lost.items() if found} == {}


def test_the_check_of_links_takes_the_name_of_a_page_as_a_citation_except_in_a_url() -> None:
    text = '"""One (page.md 2.1).\n\nSee ../docs/dns.md#zones, a.mdx and https://example.org/other.md."""'
    assert cited(text) == {"page.md", "docs/dns.md"}


@pytest.mark.parametrize(
    ("index", "folder"),
    [(DOCS / "README.md", DOCS), (ROOT / "CONTRIBUTING.md", DOCS / "development")],
    ids=["for users", "for developers"],
)
def test_the_index_of_a_folder_of_docs_lists_each_page(index: Path, folder: Path) -> None:
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text())}
    assert {*folder.glob("*.md")} - {index} <= listed
