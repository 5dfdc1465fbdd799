"""Tests of the picture."""

from pathlib import Path
from xml.etree import ElementTree as Xml

from dnsbench.plot import draw
from dnsbench.scenarios import SCENARIOS

from tests.loadtest.dnsbench.figures import row

ROWS = [row(scenario.name, each.label, cpu_us=7.25) for scenario in SCENARIOS for each in scenario.contestants]


def drawn(path: Path) -> bytes:
    draw(path, SCENARIOS, ROWS)
    return path.read_bytes()


def test_the_picture_names_every_scenario_and_server(tmp_path: Path) -> None:
    texts = {
        element.text for element in Xml.fromstring(drawn(tmp_path / "a.svg")).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {scenario.title for scenario in SCENARIOS} <= texts
    assert {row.label for row in ROWS} <= texts


def test_the_same_figures_make_the_same_picture(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a.svg") == drawn(tmp_path / "b.svg")
