"""docs/settings.md has every variable that the two programs read, and no others."""

import ast
import re
from pathlib import Path

import pytest
import tsnameserver.settings
import tsoperator.settings

from tests.docs.pages import rows, sections

PAGE = "settings.md"
VARIABLE = re.compile(r"[A-Z]+(_[A-Z]+)+|KUBECONFIG")


def test_every_variable_of_the_operator_has_a_row_and_every_row_is_one() -> None:
    nodes = ast.walk(ast.parse(Path(tsoperator.settings.__file__).read_text()))
    constants = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    read = {text for text in constants if VARIABLE.fullmatch(text)}
    assert len(read) > 15
    assert {*rows(sections(PAGE)["The operator"])} == read


def test_every_variable_of_the_nameserver_has_a_row_and_every_row_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tsnameserver.settings.read_settings(["--help"], {})
    flags = {*re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, flags=re.MULTILINE)} - {"--help", "--version"}
    variables = {f"TSNAMESERVER_{flag.removeprefix('--').replace('-', '_').upper()}" for flag in flags}
    assert len(variables) > 10
    assert {*rows(sections(PAGE)["The nameserver"])} == variables | flags
