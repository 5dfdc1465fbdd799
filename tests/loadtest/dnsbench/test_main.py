"""Tests of the command line."""

import json
from pathlib import Path

import pytest
from dnsbench.__main__ import main

from tests.loadtest.compiling import NEEDS_CC


def test_a_missing_server_is_an_error_of_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--servers", "go"]) == 2
    assert capsys.readouterr().err.startswith("dnsbench: Go isn't here (give --go-nameserver PATH;")


@NEEDS_CC
@pytest.mark.thorough
def test_a_run_prints_tables_and_stores_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--servers", "ours", "--scenarios", "tcp", "--quick", "--results", str(tmp_path)]) == 0
    assert "### TCP saturated" in capsys.readouterr().out
    kept = json.loads((tmp_path / "nameserver.json").read_text())
    assert [each["server"] for each in kept["measurements"]] == ["ours"]
    assert (tmp_path / "nameserver.svg").exists()
