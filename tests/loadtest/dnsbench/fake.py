"""A stand-in for dnsperf."""

from pathlib import Path

SAID = """
Statistics:

  Queries sent:         1010
  Queries completed:    1000 (99.01%)
  Queries lost:         10 (0.99%)

  Response codes:       NOERROR 890 (89.00%), SERVFAIL 7 (0.70%), NXDOMAIN 103 (10.30%)
  Run time (s):         2.500000
"""


def dnsperf_program(folder: Path) -> str:
    """Write a program that says SAID, and its arguments to the file `words` of *folder*; returns its path."""
    program = folder / "dnsperf"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/words\ncat <<END\n{SAID}\nEND\n')
    program.chmod(0o755)
    return str(program)
