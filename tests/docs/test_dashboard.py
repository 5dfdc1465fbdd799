"""The chart's dashboard asks for metrics and labels that the two programs have."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.docs.pages import ROOT
from tests.docs.scrapes import series

DASHBOARD: Final = ROOT / "charts" / "tailscale-operator" / "files" / "dashboard.json"
SCRAPED: Final = {"namespace", "job", "pod"}
"""What Prometheus puts on each series of a Pod."""

Json = dict[str, Any]

_SELECTOR = re.compile(r"(\w+)\{(.*?)\}")
_MATCHER = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")
_GROUPING = re.compile(r"\b(?:by|on) \((.*?)\)")


@pytest.fixture(scope="module")
def dashboard() -> Json:
    loaded: Json = json.loads(DASHBOARD.read_text())
    return loaded


def panels(dashboard: Json) -> Iterator[Json]:
    """Yield the panels that show something."""
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def targets(dashboard: Json) -> Iterator[tuple[str, str]]:
    """Yield each query and its legend."""
    for panel in panels(dashboard):
        yield from ((target["expr"], target["legendFormat"]) for target in panel["targets"])


def grouped(expression: str) -> set[str]:
    """Return the labels by which a query groups or joins."""
    return {label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",")}


def test_every_query_asks_for_series_and_labels_that_there_are(
    dashboard: Json, operator_page: str, nameserver_page: str
) -> None:
    there = {**series(operator_page), **series(nameserver_page)}
    for expression, legend in targets(dashboard):
        selected = _SELECTOR.findall(expression)
        assert {name for name, _ in selected} <= {*there}, expression
        for name, matchers in selected:
            assert {*_MATCHER.findall(matchers)} <= there[name] | SCRAPED, expression
        known = set().union(*(there[name] for name, _ in selected)) | SCRAPED
        assert grouped(expression) <= known, expression
        assert {*re.findall(r"\{\{(\w+)\}\}", legend)} <= (grouped(expression) or {"pod"}), expression


def test_every_query_is_of_the_namespace_and_jobs_that_were_chosen(dashboard: Json) -> None:
    for expression, _ in targets(dashboard):
        for _, matchers in _SELECTOR.findall(expression):
            assert matchers.startswith('namespace="$namespace", job=~"$job"'), expression


def test_every_panel_and_query_is_of_the_data_source_that_was_chosen(dashboard: Json) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "namespace", "job"]
    for panel in panels(dashboard):
        assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [chosen] * (
            len(panel["targets"]) + 1
        )


def test_panels_have_ids_of_their_own_and_do_not_lie_on_each_other(dashboard: Json) -> None:
    places = Counter(
        (at["x"] + right, at["y"] + down)
        for at in (panel["gridPos"] for panel in dashboard["panels"])
        for right in range(at["w"])
        for down in range(at["h"])
    )
    assert {*places.values()} == {1}
    assert {x for x, _ in places} == {*range(24)}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_work_of_the_operator_and_the_nameserver_is_shown(dashboard: Json) -> None:
    shown = {name for expression, _ in targets(dashboard) for name, _ in _SELECTOR.findall(expression)}
    assert shown >= {
        "tsoperator_leading",
        "tsoperator_preflight",
        "tsoperator_cluster_dns_ready",
        "tsoperator_devices",
        "tsoperator_reconciles_total",
        "tsoperator_reconcile_duration_seconds_bucket",
        "tsoperator_queue_depth",
        "tsoperator_requests_total",
        "tsnameserver_dns_responses_total",
        "tsnameserver_names",
        "tsnameserver_records_last_success_timestamp_seconds",
    }
