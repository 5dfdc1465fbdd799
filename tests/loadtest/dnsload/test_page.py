"""Tests of the HTML report of two runs: a plain one, and one whose report has every possible part."""

import re
from html.parser import HTMLParser

import pytest
from dnsload.page import page

from tests.loadtest.dnsload.samples import report_on


class Page(HTMLParser):
    """A parser that collects the texts of a page, and the addresses that a browser would fetch for it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.texts: list[str] = []
        self.fetched: list[str] = []
        self.plots = 0
        self.feed(source)

    @property
    def verdict(self) -> str:
        """Return the text above the table of query counts."""
        return " ".join(self.texts[: self.texts.index("Queries")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.plots += tag == "svg"
        links = [value or "" for name, value in attrs if name in {"src", "href", "xlink:href"}]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


@pytest.fixture(scope="module")
def plain() -> Page:
    return Page(page(report_on()))


@pytest.fixture(scope="module")
def full() -> Page:
    """Return a page that has every part: steps, two targets, wrong answers, a busy client, a soak and examples."""
    report = report_on("--steps", "100,2000", "--target", "2001:db8::1", wrong=1, client_drops=1)
    soak = report_on("--soak", seconds=30).soak
    wrong = {"wrong_reasons": {"addresses": 1234}, "wrong_examples": ["<script>"]}
    return Page(page(report.model_copy(update={"soak": soak, "interrupted": True, **wrong})))


def test_the_html_report_has_plots_tables_and_settings_and_loads_nothing_from_elsewhere(plain: Page) -> None:
    assert (plain.plots, plain.fetched) == (5, [])
    assert not re.search(r"@import|url\((?!#)", plain.source)
    assert {"p99.99", "300", "Settings", "time-out", "192.0.2.53:53"} <= {*plain.texts}


def test_the_verdict_is_at_the_top_of_the_html_report(plain: Page, full: Page) -> None:
    assert "OK:" in plain.verdict
    assert not {"Failed:", "Limited by the client:"} & {*plain.texts}
    assert re.search("interrupted.*Failed: 3 answers were wrong.*Limited by the client:", full.verdict)
    assert "OK:" not in full.texts


def test_the_html_report_has_a_table_for_each_of_steps_targets_soak_and_wrong_answers_if_there_are_any(
    plain: Page, full: Page
) -> None:
    assert {"2,000/s", "[2001:db8::1]:53", "first 1 windows", "1,234"} <= {*full.texts}
    heads = {"Steps", "Targets", "Soak: beginning and end", "Wrong answers"}
    assert heads <= {*full.texts}
    assert not heads & {*plain.texts}


def test_the_html_report_escapes_text_that_comes_from_a_server(full: Page) -> None:
    assert "<script>" in full.texts
    assert "<script>" not in full.source
