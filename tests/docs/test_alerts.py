"""The chart's alerts ask for metrics and labels that the two programs have, and docs/metrics.md says what to do."""

import re
from typing import Any, Final

import pytest
import yaml

from tests.docs.pages import ROOT, rows, sections
from tests.docs.scrapes import series

GROUPS: Final = yaml.safe_load((ROOT / "charts/tailscale-operator/files/alerts.yaml").read_text())["groups"]
ALERTS: Final[list[dict[str, Any]]] = [rule for group in GROUPS for rule in group["rules"]]
SCRAPED: Final = {"namespace", "pod"}
"""The labels that Prometheus puts on each series of a Pod."""


def test_every_alert_has_a_row_that_says_what_to_do() -> None:
    assert rows(sections("metrics.md")["Alerts about the nameserver"]) == [rule["alert"] for rule in ALERTS]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_series_and_labels_that_there_are(
    rule: dict[str, Any], operator_page: str, nameserver_page: str
) -> None:
    there = series(operator_page if "tsoperator_" in rule["expr"] else nameserver_page)
    asked = re.findall(r"\b((?:tsoperator|tsnameserver|process)_\w+)(?:\{(\w+)[!=])?", rule["expr"])
    assert asked
    assert {name for name, _ in asked} <= {*there}
    assert all(label in there[name] for name, label in asked if label)
    shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    assert {*shown} <= there[asked[0][0]] | SCRAPED
