"""Reads the documentation: headings, tables, links and manifests of its Markdown pages."""

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "coredns").glob("*.md")])
EXAMPLES: Final = sorted([*(DOCS / "examples").glob("*.yaml"), *(ROOT / "coredns").glob("*.yaml")])
VALUES_OF_CHART: Final = "# values.yaml\n"
"""The first line of each block on a page that shows values for the chart."""

_HEREDOC = re.compile(r"<<(\w+)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_HEREDOC_START = re.compile(r"<<\w+$", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s+)#\s.*$")
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


def name_of(path: Path) -> str:
    """Return *path*, the path of a page, relative to the repository. The IDs of tests contain the result."""
    return str(path.relative_to(ROOT))


def prose(text: str) -> str:
    return _FENCE.sub("", text)


def sections(page: str) -> dict[str, str]:
    """Return the text below each second-level heading in docs/*page*, by heading."""
    _, *parts = re.split(r"^## +", prose((DOCS / page).read_text()), flags=re.MULTILINE)
    return {heading: body for heading, _, body in (part.partition("\n") for part in parts)}


def codes(text: str) -> list[str]:
    return _CODE.findall(text)


def rows(text: str) -> list[str]:
    """Return the code spans in the first cells of the tables in *text*, in order."""
    first_cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    return [code for cell in first_cells for code in codes(cell)]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings in *text*, as GitHub makes them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for _, heading in _HEADING.findall(prose(text)))
    return {title.replace(" ", "-") for title in words}


def links(text: str) -> list[str]:
    return [link for link in _LINK.findall(prose(text)) if "://" not in link]


def blocks(path: Path) -> Iterator[str]:
    """Yield the YAML in a file.

    Of a page, yield each block of YAML, and each here-document in a command.
    """
    if path.suffix == ".yaml":
        yield path.read_text()
        return
    for kind, body in fences(path):
        if kind == "yaml":
            yield body
        else:
            yield from (document for _, document in _HEREDOC.findall(body))


def commands(path: Path) -> Iterator[list[str]]:
    """Yield each command in a page's shell blocks as a list of words, without comments."""
    for kind, body in fences(path):
        if kind == "sh":
            lines = (shlex.split(line, comments=True) for line in body.replace("\\\n", " ").splitlines())
            yield from filter(None, lines)


def fences(path: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code in a page."""
    return [(kind, body) for _, kind, body in _FENCE.findall(path.read_text())]


def shell(path: Path) -> Iterator[str]:
    """Yield each command in a page's shell blocks, exactly as the page has it.

    In a block that shows a console, the lines that begin with ``$`` are commands.
    """
    for kind, body in fences(path):
        if kind == "console":
            lines = [line.lstrip().removeprefix("$ ") for line in body.splitlines(True) if line.lstrip()[:2] == "$ "]
            yield from whole("".join(lines))
        elif kind == "sh":
            yield from whole(body)


def whole(script: str) -> Iterator[str]:
    """Yield the commands in *script*; raises ValueError if the last one has no end."""
    command = ""
    for line in script.splitlines(keepends=True):
        command += line
        if _is_whole(command):
            if shlex.split(command, comments=True):
                yield command.strip()
            command = ""
    if command:
        raise ValueError(f"no end of {command!r}")


def outputs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the commands of each shell block, with the output in the block right below it, if there is one."""
    text = path.read_text()
    for shown, printed in pairwise(_FENCE.finditer(text)):
        if shown[2] == "sh" and not printed[2] and not text[shown.end() : printed.start()].strip():
            yield shown[3], printed[3]


def normalised(command: str) -> str:
    """Return *command* on one line, without comments and with one space between words."""
    lines = (_COMMENT.sub("", line).removesuffix("\\") for line in command.splitlines())
    return " ".join(" ".join(lines).split())


def _is_whole(command: str) -> bool:
    """Tell whether *command* is complete.

    It isn't if its last line ends in a backslash, or if a quote or a here-document is still open.
    """
    if command.endswith("\\\n") or len(_HEREDOC_START.findall(command)) > len(_HEREDOC.findall(command)):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:  # no closing quotation
        return False
    return True


def manifests(path: Path) -> Iterator[Any]:
    """Yield the Kubernetes objects in the file *path*, a manifest or a page, without the other YAML in the file."""
    for block in blocks(path):
        yield from (obj for obj in yaml.safe_load_all(block) if isinstance(obj, dict) and "apiVersion" in obj)


def values() -> dict[str, str]:
    """Return the YAML of all documented values for the chart.

    Each key is the path of an example, or names a page and its block.
    """
    found = {name_of(path): path.read_text() for path in sorted((DOCS / "examples" / "values").glob("*.yaml"))}
    for page in PAGES:
        shown = (block for block in blocks(page) if block.startswith(VALUES_OF_CHART))
        found |= {f"{name_of(page)}, block {number}": block for number, block in enumerate(shown, 1)}
    return found


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
