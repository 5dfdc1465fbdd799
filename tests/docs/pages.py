"""Reads the documentation: headings, tables, links and manifests of its Markdown pages."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "coredns").glob("*.md")])
EXAMPLES: Final = sorted([*(DOCS / "examples").glob("*.yaml"), *(ROOT / "coredns").glob("*.yaml")])
VALUES_OF_CHART: Final = "# values.yaml\n"
"""What a page's block of values for the chart begins with."""

_HEREDOC = re.compile(r"<<(\w+)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


def name_of(path: Path) -> str:
    """Return the path of a page in the repository, which tests are named by."""
    return str(path.relative_to(ROOT))


def prose(text: str) -> str:
    """Return *text* without its blocks of code."""
    return _FENCE.sub("", text)


def sections(page: str) -> dict[str, str]:
    """Return what stands below each heading of the second level in docs/*page*."""
    _, *parts = re.split(r"^## +", prose((DOCS / page).read_text()), flags=re.MULTILINE)
    return {heading: body for heading, _, body in (part.partition("\n") for part in parts)}


def codes(text: str) -> list[str]:
    """Return what is written as code in *text*."""
    return _CODE.findall(text)


def rows(text: str) -> list[str]:
    """Return what is written as code in the first cells of the tables in *text*, in order."""
    first_cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    return [code for cell in first_cells for code in codes(cell)]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings in *text*, as GitHub makes them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for _, heading in _HEADING.findall(prose(text)))
    return {title.replace(" ", "-") for title in words}


def links(text: str) -> list[str]:
    """Return the relative links in *text*."""
    return [link for link in _LINK.findall(prose(text)) if "://" not in link]


def blocks(path: Path) -> Iterator[str]:
    """Yield the YAML in a file: all of it, or a page's blocks and what its commands read from here-documents."""
    text = path.read_text()
    if path.suffix == ".yaml":
        yield text
        return
    for _, kind, body in _FENCE.findall(text):
        if kind == "yaml":
            yield body
        else:
            yield from (document for _, document in _HEREDOC.findall(body))


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command in a page's shell blocks; comments are left out."""
    for _, kind, body in _FENCE.findall(path.read_text()):
        if kind == "sh":
            lines = (shlex.split(line, comments=True) for line in body.replace("\\\n", " ").splitlines())
            yield from filter(None, lines)


def manifests(path: Path) -> Iterator[Any]:
    """Yield the objects in a manifest, or in a page's YAML; what is not an object is left out."""
    for block in blocks(path):
        yield from (obj for obj in yaml.safe_load_all(block) if isinstance(obj, dict) and "apiVersion" in obj)


def values() -> dict[str, str]:
    """Return the values for the chart in examples and pages, as YAML by where they stand."""
    found = {name_of(path): path.read_text() for path in sorted((DOCS / "examples" / "values").glob("*.yaml"))}
    for page in PAGES:
        shown = (block for block in blocks(page) if block.startswith(VALUES_OF_CHART))
        found |= {f"{name_of(page)}, block {number}": block for number, block in enumerate(shown, 1)}
    return found
