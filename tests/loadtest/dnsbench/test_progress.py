"""Tests of progress lines."""

import pytest
from dnsbench.progress import Progress


def test_a_line_begins_with_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().say("measuring")
    assert capsys.readouterr().err == "[   0.0 s] measuring\n"
