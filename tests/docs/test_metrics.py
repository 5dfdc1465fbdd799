"""docs/metrics.md lists all metrics of our programs, and the chart's dashboard and alerts use only these metrics."""

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
import pytest
import yaml
from clustersim.processes import free_port
from prometheus_client.parser import text_string_to_metric_families
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.reloads import Reloads, Watched
from tsnameserver.sockets import Endpoint
from tsoperator.apiproxy.counts import ProxyCounts

from tests.docs.pages import DOCS, ROOT, anchors, codes, rows, sections
from tests.nameserver.conftest import running_server
from tests.nameserver.samples import wire
from tests.support import patient
from tests.support.manifests import connector, dnsconfig, group_egress, proxy_group
from tests.support.operator import new_world, running_operator

Json = dict[str, Any]

FILES: Final = ROOT / "charts" / "tailscale-operator" / "files"
DASHBOARD: Final[Json] = json.loads((FILES / "dashboard.json").read_text())
PANELS: Final[list[Json]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
GROUPS: Final = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
ALERTS: Final[list[Json]] = [rule for group in GROUPS for rule in group["rules"]]
SCRAPED: Final = {"namespace", "job", "pod"}
"""The labels that Prometheus adds to each series of a Pod."""
LATE = ("preflight", "devices", "egress_entries", "egress_probes_total", "cluster_dns_ready")
"""The metrics of the operator that have no series right after its start."""

_SELECTOR = re.compile(r"(\w+)\{(.*?)\}")
_MATCHER = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")
_GROUPING = re.compile(r"\b(?:by|on) \((.*?)\)")


@pytest.fixture(scope="module")
def operator_page() -> str:
    """The metrics page of an operator that has made proxies, one of them for a ProxyGroup, and a nameserver."""
    return patient.run(operator_metrics())


async def operator_metrics() -> str:
    address = f"127.0.0.1:{free_port()}"

    async def page() -> str:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as response:
            text = await response.text()
        return text if all(f"tsoperator_{name}{{" in text for name in LATE) else ""

    servers = ("127.0.0.1:9",)  # nothing listens on this port
    async with new_world() as world, running_operator(world, health_address=address, cluster_dns=servers):
        nameserver = dnsconfig(service={"clusterIP": "127.0.0.1"})
        await world.apply(connector(), proxy_group(), group_egress(), nameserver)
        return await world.eventually(page)


@pytest.fixture(scope="module")
def nameserver_page() -> str:
    """The metrics page of a nameserver that has answered a query and has had one failure of each kind."""
    return asyncio.run(nameserver_metrics())


async def nameserver_metrics() -> str:
    async with running_server(Endpoint("127.0.0.1", 0)) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(30)
            client.sendto(wire("db.tail1234.ts.net"), (server.host, server.port))
            client.recv(512)
        return metrics_pages(Metrics([server.udp], [server.tcp], Reloads(), Watched(), {"tcp": 1}))["/metrics"]().text


@pytest.fixture(scope="module")
def series(operator_page: str, nameserver_page: str) -> dict[str, set[str]]:
    """The labels of each series of our programs, by the name of the series.

    The series are those on the programs' metrics pages. A metric without series there has the labels that the
    documentation names.
    """
    pages = (operator_page, nameserver_page, ProxyCounts("auth").text())
    found = [family for page in pages for family in text_string_to_metric_families(page)]
    return documented_labels() | {sample.name: {*sample.labels} for family in found for sample in family.samples}


def documented_labels() -> dict[str, set[str]]:
    """Return the labels of each metric in the tables of the documentation."""
    lines = (DOCS / "metrics.md").read_text().splitlines()
    cells = [line.split("|")[1:3] for line in lines if re.match(r"\| `(tsoperator|tsnameserver)_", line)]
    return {name: {*codes(second)} for first, second in cells for name in codes(first)}


def test_every_metric_has_a_row_in_the_documentation_and_every_row_is_for_a_metric(
    operator_page: str, nameserver_page: str
) -> None:
    pages = {
        "The operator": operator_page,
        "The nameserver": nameserver_page,
        "The API server proxy": ProxyCounts("auth").text(),
    }
    for heading, page in pages.items():
        shown = {name for name in re.findall(r"^# TYPE (\S+)", page, re.MULTILINE) if not name.endswith("_created")}
        assert {*rows(sections("metrics.md")[heading])} == shown


def test_every_alert_has_a_heading_in_the_documentation_to_which_its_link_leads() -> None:
    page = (DOCS / "alerts.md").read_text()
    assert re.findall("^### (.+)$", page, re.MULTILINE) == [rule["alert"] for rule in ALERTS]
    links = [rule["annotations"]["runbook_url"].partition("docs/alerts.md#") for rule in ALERTS]
    assert all(before == "" and anchor in anchors(page) for before, _, anchor in links)
    assert [anchor for _, _, anchor in links] == [rule["alert"].lower() for rule in ALERTS]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_uses_only_series_and_labels_that_exist(rule: Json, series: dict[str, set[str]]) -> None:
    asked = re.findall(r"\b((?:tsoperator|tsnameserver|process)_\w+)(?:\{(\w+)[!=])?", rule["expr"])
    assert asked
    assert all(label in {"", *series[name]} for name, label in asked)
    shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    assert {*shown} <= series[asked[0][0]] | SCRAPED - {"job"}


def queries() -> Iterator[tuple[str, str]]:
    """Yield each query of the dashboard and its legend."""
    for panel in PANELS:
        yield from ((target["expr"], target["legendFormat"]) for target in panel["targets"])


def test_every_query_of_the_dashboard_uses_existing_series_and_labels_and_selects_the_chosen_jobs(
    series: dict[str, set[str]],
) -> None:
    for expression, legend in queries():
        selected = _SELECTOR.findall(expression)
        for name, matchers in selected:
            assert {*_MATCHER.findall(matchers)} <= series[name] | SCRAPED, expression
            assert matchers.startswith('namespace="$namespace", job=~"$job"'), expression
        known = set().union(*(series[name] for name, _ in selected)) | SCRAPED
        grouped = {label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",")}
        assert grouped <= known, expression
        assert {*re.findall(r"\{\{(\w+)\}\}", legend)} <= (grouped or {"pod"}), expression


def test_each_panel_and_query_of_the_dashboard_uses_the_data_source_that_the_user_chooses() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "namespace", "job"]
    assert all(each["datasource"] == chosen for panel in PANELS for each in (panel, *panel["targets"]))


def test_the_panels_of_the_dashboard_have_distinct_ids_and_do_not_overlap() -> None:
    grid = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    places = Counter(
        (at["x"] + right, at["y"] + down) for at in grid for right in range(at["w"]) for down in range(at["h"])
    )
    assert {*places.values()} == {1}
    assert {x for x, _ in places} == {*range(24)}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(grid)
