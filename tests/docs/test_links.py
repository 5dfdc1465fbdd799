"""Links between pages lead somewhere."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, name_of


def missing(page: Path) -> list[str]:
    lost = []
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            lost.append(link)
    return lost


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert missing(page) == []


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n[1](#a-b) [2](page.md) [3](other.md) [4](#c) [5](https://example.org)\n```\n[6](x)\n```\n")
    assert missing(page) == ["other.md", "#c"]


@pytest.mark.parametrize(
    ("index", "folder"),
    [(DOCS / "README.md", DOCS), (ROOT / "CONTRIBUTING.md", DOCS / "development")],
    ids=["for users", "for developers"],
)
def test_every_page_is_in_the_index(index: Path, folder: Path) -> None:
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text())}
    assert {*folder.glob("*.md")} - {index} <= listed
