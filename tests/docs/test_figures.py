"""The comparison with Tailscale's operator, in the picture and in the README, equals the stored results."""

import json
import xml.etree.ElementTree as ET

import yaml

from docs.pictures.figures import RESULTS, TARGET, Column, Measure, render, stored
from tests.docs.pages import ROOT


def test_the_picture_that_compares_the_operators_is_up_to_date_with_the_stored_results() -> None:
    assert TARGET.read_text() == render(*stored())


def test_the_bars_of_a_comparison_are_as_long_as_their_figures_say() -> None:
    one = Column("a", (Measure("CPU", 1.25, 10.0, "ms"), Measure("writes", 4.0, 2.0)))
    svg = ET.fromstring(render([one], {"ours": "tsoperator 1, Python", "Go": "k8s-operator 2"}))
    bars = [float(bar.attrib["width"]) for bar in svg.findall("{*}rect")[2:]]
    assert [bars[1] / bars[0], bars[2] / bars[3]] == [8, 2]
    said = [text.text for text in svg.findall("{*}text")]
    assert said[:2] == ["tsoperator 1", "Tailscale's operator 2"]
    assert said[3:] == ["a", "CPU", "1.2 ms", "10 ms", "writes", "4", "2"]


def test_the_readme_compares_both_operators_by_the_figures_in_the_stored_results() -> None:
    (made, cpu, writes, _), (grouped, grouped_cpu, grouped_writes, _), (*_, memory) = (
        column.measures for column in stored()[0]
    )
    assert (round(cpu.go / cpu.ours), round(grouped_cpu.go / grouped_cpu.ours)) == (2, 7)
    measured = json.loads((RESULTS / "nameserver.json").read_text())["measurements"]
    ours, go = (
        f"{each['best']['qps'] / 1000:.0f},000"
        for name in ("ours", "Go")
        for each in measured
        if (each["scenario"], each["server"]) == ("saturated", name)
    )
    alerts = yaml.safe_load((ROOT / "charts/tailscale-operator/files/alerts.yaml").read_text())["groups"]
    readme = (ROOT / "README.md").read_text()
    for words in (
        f"after {made.words[0]}, not {made.words[1]}; ",
        f"after {grouped.words[0]}, not {grouped.words[1]} ",
        f"costs {writes.words[0]} writes, not {writes.words[1]}; ",
        f"in a ProxyGroup {grouped_writes.words[0]}, not {grouped_writes.words[1]}.",
        f"{ours} queries a second on one core, not {go} ",
        f"needs {memory.words[0]} of memory, and Go's {memory.words[1]}",
        f"[{sum(len(group['rules']) for group in alerts)} alerts]",
    ):
        assert words in readme
