"""Tests of the second witness."""

import os
import shutil
from pathlib import Path

import pytest
from dnsbench.client import Load
from dnsbench.dnsperf import Dnsperf, parse
from dnsbench.errors import BenchError

SAID = """
Statistics:

  Queries sent:         1010
  Queries completed:    1000 (99.01%)
  Queries lost:         10 (0.99%)

  Response codes:       NOERROR 890 (89.00%), SERVFAIL 7 (0.70%), NXDOMAIN 103 (10.30%)
  Run time (s):         2.500000
"""


def test_what_it_prints_is_read() -> None:
    seen = parse(SAID, cpu_seconds=1.0)
    assert (seen.sent, seen.answered, seen.lost, seen.hits, seen.misses, seen.wrong) == (1010, 1000, 10, 890, 103, 7)
    assert (seen.seconds, seen.cpu_seconds, seen.idle_seconds) == (2.5, 1.0, 1.5)


def test_what_it_does_not_print_is_none() -> None:
    assert parse(SAID.replace("NXDOMAIN 103", "REFUSED 103"), 1.0).misses == 0


def test_what_is_not_understood_is_an_error() -> None:
    with pytest.raises(BenchError, match="isn't understood: Error: connection refused"):
        parse("Error: connection refused", 0.0)


def test_it_is_told_where_and_how_fast_to_ask(tmp_path: Path) -> None:
    program = tmp_path / "dnsperf"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat <<END\n{SAID}\nEND\n')
    program.chmod(0o755)
    Dnsperf(str(program), min(os.sched_getaffinity(0))).run(tmp_path / "names", 1053, Load(2.0, outstanding=50))
    words = (tmp_path / "words").read_text().split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert (told["-p"], told["-l"], told["-q"]) == ("1053", "2.0", "50")


def test_it_is_left_out_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("dnsperf") is None
    assert Dnsperf.find(0) is None
