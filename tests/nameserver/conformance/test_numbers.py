"""Whether every line of what is promised has a test."""

import re
from pathlib import Path

LINES = range(1, 51)


def test_every_line_has_a_test() -> None:
    sources = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tested = {int(number) for source in sources for number in re.findall(r"(?m)^def test_(\d\d)_", source)}
    assert tested == set(LINES)
