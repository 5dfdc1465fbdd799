"""Debian's Prometheus reads the metrics of the demo: the dashboard shows them, and the alerts fire when they should."""

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.e2e.panels import DASHBOARD, Scraped, annotate, expressions, scraped_demo, send, use
from tests.e2e.product import TREE
from tests.e2e.prometheus import prometheus_program
from tests.e2e.waiting import eventually

ALERTS: Final = TREE / "charts" / "tailscale-operator" / "files" / "alerts.yaml"
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUIET: Final = {
    "Reconciles that did not succeed",
    "Refused or unanswered by the API server",
    "Refused or unanswered by the control server",
}
"""The panels that have no data as long as nothing fails."""
GROUPS: Final = "apis/tailscale.com/v1alpha1/proxygroups"
SERVICES: Final = "api/v1/namespaces/default/services"


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    with scraped_demo(tmp_path_factory.mktemp("scraped")) as found:
        use(found, 12)
        yield found


@pytest.mark.parametrize(
    "panel", [each for each in PANELS if each["title"] not in QUIET], ids=lambda panel: panel["title"]
)
def test_every_query_of_a_panel_of_the_dashboard_returns_data(scraped: Scraped, panel: Any) -> None:
    for expression, _ in expressions(panel):
        eventually(partial(scraped.prometheus.query, expression), f"data of {expression}")


@pytest.fixture(scope="module")
def refused(scraped: Scraped) -> Scraped:
    """The simulated cluster of ``make demo``, with two faults.

    Its API server refuses the Role of a ProxyGroup, and its control server refuses the tag of a Service.
    """
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "taken"}, "rules": []}
    group = {"apiVersion": "tailscale.com/v1alpha1", "kind": "ProxyGroup", "spec": {"type": "egress"}}
    given = {"tailscale.com/tailnet-fqdn": "db.tail1234.ts.net", "tailscale.com/tags": "tag:nobodys"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken", "annotations": given}}
    owners = {"tag:k8s-operator": [], "tag:k8s": ["tag:k8s-operator"]}
    send("POST", f"{scraped.control}/api/v2/tailnet/-/acl", {"tagOwners": owners})
    send("POST", f"{scraped.api}/apis/rbac.authorization.k8s.io/v1/namespaces/tailscale/roles", role)
    send("POST", f"{scraped.api}/{GROUPS}", {**group, "metadata": {"name": "taken"}})
    send("POST", f"{scraped.api}/{SERVICES}", {**service, "spec": {"type": "ExternalName", "externalName": "unused"}})
    return scraped


@pytest.mark.parametrize("panel", [each for each in PANELS if each["title"] in QUIET], ids=lambda panel: panel["title"])
def test_the_panels_of_the_dashboard_about_failures_show_requests_that_a_server_refuses(
    refused: Scraped, panel: Any
) -> None:
    def shown(expression: str) -> list[Any]:
        for path in (f"{GROUPS}/taken", f"{SERVICES}/taken"):  # the operator tries again at a change of the object
            annotate(refused, path, "example.org/at", str(time.monotonic()))
        return refused.prometheus.query(expression)

    for expression, _ in expressions(panel):
        eventually(partial(shown, expression), f"data of {expression}")


class Case(NamedTuple):
    """An alert, series with which it fires after some minutes (*fires*), and series with which it doesn't (*calm*)."""

    alert: str
    fires: dict[str, str]
    calm: dict[str, str]
    minutes: int = 75


def one(series: str, fires: str = "1x80", calm: str = "0x80") -> tuple[dict[str, str], dict[str, str]]:
    """Return *series* twice: with values at which the alert fires, and with values at which it doesn't."""
    return {series: fires}, {series: calm}


LEADING = 'tsoperator_leading{pod="a"}'
DEPTH = 'tsoperator_queue_depth{pod="a",controller="service"}'
STARTED = 'process_start_time_seconds{namespace="tailscale",pod="a"}'
BUILD = 'tsnameserver_build_info{namespace="tailscale",pod="a"}'
DAY = 86_400
CASES: Final = [
    Case("TailscaleOperatorNotLeading", {LEADING: "0x80"}, {LEADING: "1x80", 'tsoperator_leading{pod="b"}': "0x80"}),
    Case(
        "TailscaleOperatorNotLeading",
        {'tsoperator_leading{namespace="a"}': "1x80", 'tsoperator_leading{namespace="b"}': "0x80"},
        {'tsoperator_leading{namespace="a"}': "1x80", 'tsoperator_leading{namespace="b"}': "1x80"},
    ),
    Case("TailscaleOperatorNotLeading", {}, {LEADING: "1x80"}),
    Case("TailscaleOperatorNotLeading", {LEADING: "1x80", 'tsoperator_leading{pod="b"}': "1x80"}, {LEADING: "1x80"}),
    Case("TailscaleTailnetNotSetUp", *one('tsoperator_preflight{check="api",tailnet=""}', "0x80", "1x80")),
    Case("TailscaleWatchRefused", *one('tsoperator_watch_refused{resource="services",namespace=""}')),
    Case("TailscaleProxiesNotReady", *one('tsoperator_proxies{parent="svc",ready="false"}')),
    Case("TailscaleProxyGroupNotReady", *one('tsoperator_proxygroups{type="egress",reason="ProxyGroupCreating"}')),
    Case("TailscalePeerRelayNotReady", *one('tsoperator_peerrelays{reason="EndpointsPending"}')),
    Case("TailscaleRecorderNotReady", *one('tsoperator_recorders{reason="RecorderInvalid"}')),
    Case("TailscaleTailnetInvalid", *one('tsoperator_tailnets{reason="InvalidOAuth"}')),
    Case(
        "TailscaleCertificateExpires",
        *one('tsoperator_certificate_expiry_timestamp_seconds{domain="a"}', f"{6 * DAY}x80", f"{30 * DAY}x80"),
    ),
    Case(
        "TailscaleReconcilesFail", *one('tsoperator_reconciles_total{controller="service",outcome="error"}', "0+1x80")
    ),
    Case("TailscaleQueueLong", {DEPTH: "101x80", LEADING: "1x80"}, {DEPTH: "101x80", LEADING: "0x80"}),
    Case("TailscaleRequestsFail", *one('tsoperator_requests_total{api="control",method="GET",code="503"}', "0+1x80")),
    Case("TailscaleAPIServerProxyFails", *one('tsoperator_apiproxy_requests_total{outcome="failed"}', "0+1x80")),
    Case(
        "TailscaleSessionNotRecorded",
        *one('tsoperator_apiproxy_session_recordings_total{outcome="failed"}', "0+1x80"),
    ),
    Case(
        "TailscaleNameserverWithoutRecords",
        *one('tsnameserver_records_last_success_timestamp_seconds{pod="a"}', "0x80", "1x80"),
    ),
    Case("TailscaleClusterDNSNotReady", *one('tsoperator_cluster_dns_ready{zone="a",server="b"}', "0x80", "1x80")),
    Case("TailscaleNameserverNotFollowing", *one('tsnameserver_api_followed{pod="a"}', "0x80", "1x80")),
    Case("TailscaleNameserverRefusesRecords", *one('tsnameserver_reloads_total{pod="a",result="failure"}', "0+1x80")),
    Case("TailscaleNameserverDropsPackets", *one('tsnameserver_udp_dropped_total{pod="a"}', "0+1x80")),
    Case(
        "TailscaleNameserverCannotSend",
        {'tsnameserver_udp_unsent_total{pod="a",errno="EPERM"}': "0+1x80"},
        {'tsnameserver_udp_unsent_total{pod="a",errno="EINVAL"}': "0+1x80"},
    ),
    Case("TailscaleNameserverFails", *one('tsnameserver_restarts_total{pod="a",part="tcp"}', "0+1x80")),
    Case("TailscaleNameserverRestarts", {STARTED: "0+60x80", BUILD: "1x80"}, {STARTED: "1x80", BUILD: "1x80"}),
]


def test_every_alert_is_tested() -> None:
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert rules == [*dict.fromkeys(case.alert for case in CASES)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_with_series_that_show_its_fault_and_not_with_calm_series(case: Case, tmp_path: Path) -> None:
    assert (_fires(case, case.fires, tmp_path), _fires(case, case.calm, tmp_path)) == (True, False)


def _fires(case: Case, series: dict[str, str], folder: Path) -> bool:
    """Tell whether the alert of *case* fires with *series*.

    A test of promtool expects no alert, so the alert fires if that test fails.
    """
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {
        "interval": "1m",
        "input_series": inputs,
        "alert_rule_test": [{"alertname": case.alert, "eval_time": f"{case.minutes}m", "exp_alerts": []}],
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))
    words = [str(prometheus_program("promtool")), "test", "rules", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or f"alertname: {case.alert}" in said, said
    return done.returncode != 0


def test_promtool_finds_nothing_wrong_with_the_alerts() -> None:
    words = [str(prometheus_program("promtool")), "check", "rules", str(ALERTS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
