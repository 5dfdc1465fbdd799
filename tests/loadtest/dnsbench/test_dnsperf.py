"""Tests of running dnsperf, which confirms the figures of our own client."""

from pathlib import Path

import pytest
from dnsbench.dnsperf import Dnsperf, parse
from dnsbench.errors import BenchError
from dnsload.client import Load

from tests.loadtest.dnsbench.conftest import SERVER_CORE

SAID = """
Statistics:

  Queries sent:         1010
  Queries completed:    1000 (99.01%)
  Queries lost:         10 (0.99%)

  Response codes:       NOERROR 890 (89.00%), SERVFAIL 7 (0.70%), NXDOMAIN 103 (10.30%)
  Run time (s):         2.500000
"""


def test_the_counts_that_dnsperf_prints_are_parsed() -> None:
    seen = parse(SAID, cpu_seconds=1.0)
    tally = seen.tally
    assert (tally.sent, tally.answered, tally.lost, tally.right, tally.wrong) == (1010, 1000, 10, 993, 7)
    assert (seen.seconds, seen.cpu_seconds, seen.idle_seconds) == (2.5, 1.0, 1.5)
    assert parse(SAID.replace("NXDOMAIN 103", "REFUSED 103"), 1.0).tally.wrong == 110


def test_unknown_output_of_dnsperf_is_an_error() -> None:
    with pytest.raises(BenchError, match="isn't understood: Error: connection refused"):
        parse("Error: connection refused", 0.0)


def test_the_command_line_of_dnsperf_has_its_target_its_duration_and_the_outstanding_queries(tmp_path: Path) -> None:
    program = tmp_path / "dnsperf"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat <<END\n{SAID}\nEND\n')
    program.chmod(0o755)
    assert (
        Dnsperf(str(program), SERVER_CORE).run(tmp_path / "names", 1053, Load(2.0, outstanding=50)).tally.sent == 1010
    )
    words = (tmp_path / "words").read_text().split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert (told["-s"], told["-d"]) == ("127.0.0.1", str(tmp_path / "names"))
    assert (told["-p"], told["-l"], told["-q"]) == ("1053", "2.0", "50")
