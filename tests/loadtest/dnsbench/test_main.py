"""Tests of the command line of the DNS benchmark."""

import json
from pathlib import Path

import pytest
from dnsbench.__main__ import main

from tests.loadtest.compiling import NEEDS_CC


def test_if_a_server_is_missing_the_dns_benchmark_prints_one_line_and_exits_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--servers", "go"]) == 2
    assert capsys.readouterr().err.startswith("dnsbench: Go isn't here (give --go-nameserver PATH;")


@NEEDS_CC
@pytest.mark.thorough
def test_a_run_of_the_dns_benchmark_prints_tables_and_stores_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--servers", "ours", "--scenarios", "tcp", "--quick", "--results", str(tmp_path)]) == 0
    assert "### TCP saturated" in capsys.readouterr().out
    kept = json.loads((tmp_path / "nameserver.json").read_text())
    assert [each["server"] for each in kept["measurements"]] == ["ours"]
    assert (tmp_path / "nameserver.svg").exists()
