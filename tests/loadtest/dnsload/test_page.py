"""Tests of the HTML report."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from dnsload.page import page

from tests.loadtest.dnsload.samples import report_on


class Reader(HTMLParser):
    """Collects texts, and addresses that a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.fetched: list[str] = []
        self.plots = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.plots += tag == "svg"
        links = [value or "" for name, value in attrs if name in {"src", "href", "xlink:href"}]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_it_has_plots_tables_and_settings_and_fetches_nothing(tmp_path: Path) -> None:
    text = page(report_on(tmp_path))
    read = Reader(text)
    assert (read.plots, read.fetched) == (5, [])
    assert not re.search(r"@import|url\((?!#)", text)
    assert {"p99.99", "300", "Settings", "time-out", "192.0.2.53:53"} <= {*read.texts}


@pytest.mark.parametrize(
    ("counts", "words"),
    [({}, "OK:"), ({"wrong": 1}, "3 answers were wrong."), ({"client_drops": 1}, "Limited by the client:")],
)
def test_its_verdict_is_at_the_top(tmp_path: Path, counts: dict[str, int], words: str) -> None:
    texts = Reader(page(report_on(tmp_path, **counts))).texts
    assert words in texts[: texts.index("Queries")]


def test_steps_targets_and_soak_have_their_tables(tmp_path: Path) -> None:
    assert "2,000/s" in Reader(page(report_on(tmp_path, "--steps", "100,2000"))).texts
    assert "Targets" in Reader(page(report_on(tmp_path, "--target", "2001:db8::1"))).texts
    assert "Soak: beginning and end" in Reader(page(report_on(tmp_path, "--soak", seconds=30))).texts


def test_text_from_outside_is_escaped(tmp_path: Path) -> None:
    report = report_on(tmp_path).model_copy(update={"wrong_examples": ["<script>"]})
    assert "<script>" not in page(report)
