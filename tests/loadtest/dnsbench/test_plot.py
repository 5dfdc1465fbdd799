"""Tests of the picture."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from dnsbench.plot import draw
from dnsbench.scenarios import SCENARIOS, Scenario

from tests.loadtest.dnsbench.figures import row

ROWS = [row(scenario.name, each.label, cpu_us=7.25) for scenario in SCENARIOS for each in scenario.contestants]


def picture(path: Path, scenarios: Sequence[Scenario]) -> bytes:
    draw(path, scenarios, ROWS)
    return path.read_bytes()


def test_the_picture_names_every_scenario_and_server(tmp_path: Path) -> None:
    root = Xml.fromstring(picture(tmp_path / "a.svg", SCENARIOS))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {scenario.title for scenario in SCENARIOS} <= texts
    assert {row.label for row in ROWS} | {"7.2"} <= texts


def test_the_same_figures_make_the_same_picture(tmp_path: Path) -> None:
    assert picture(tmp_path / "a.svg", SCENARIOS[:1]) == picture(tmp_path / "b.svg", SCENARIOS[:1])
