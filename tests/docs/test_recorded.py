"""The pictures of the demo and its dashboard: they are complete, load nothing from elsewhere, and pages show them."""

import re
import xml.etree.ElementTree as ET

from docs.recorded.draw import Line, Panel, Scene, draw_panels, draw_terminal
from tests.docs.pages import DOCS, PAGES, links

RECORDED = sorted((DOCS / "recorded").glob("*.svg"))
SCENES = [
    Scene("first", "a", ("ok: <all>", "FAILED: it"), 1),
    Scene("second", "b", ("x" * 30,), 3),
]
PANELS = [
    Panel("At a glance", "row"),
    Panel("Leads", "stat", lines=(Line("a", ((-1, 0), (0, 1))),)),
    Panel("CPU", "timeseries", "percentunit", (Line("a", ((-1, 0.5), (0, 1.0))), Line("b", ()))),
    Panel("Errors", "timeseries"),
]


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_recorded_picture_is_on_a_page_and_loads_nothing_from_elsewhere() -> None:
    assert [path.stem for path in RECORDED] == ["dashboard", "demo"]
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page.read_text())}
    assert {*RECORDED} <= shown
    for path in RECORDED:
        assert re.findall(r"(?:href|src|url\(|@import)", path.read_text()) == []
        assert ET.fromstring(path.read_text()).tag.endswith("svg")


def test_the_picture_of_a_terminal_session_shows_each_scene_for_the_duration_of_the_scene() -> None:
    svg = draw_terminal("a title", SCENES, 20)
    assert texts(svg) == ["# first", "$ a", "ok: <all>", "FAILED: it", "# second", "$ b", f"{'x' * 19}…"]
    assert "@keyframes scene0{0%,24.99%{opacity:1}25.00%,100%{opacity:0}}" in svg
    assert "@keyframes scene1{0%,25.00%{opacity:0}25.01%,99.99%{opacity:1}100.00%,100%{opacity:0}}" in svg


def test_the_picture_of_a_dashboard_panel_draws_its_series_or_says_that_there_are_none() -> None:
    svg = draw_panels("a title", PANELS)
    assert texts(svg) == [
        "At a glance",
        "Leads",
        "1",
        "CPU",
        "0 %",
        "50 %",
        "100 %",
        "a",
        "Errors",
        "nothing, as it should be",
    ]
    assert svg.count("<polyline") == 1
