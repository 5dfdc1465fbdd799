"""The findings of a check from the leader's report, together with those that the check makes in the cluster itself."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic_core import to_json
from tsoperator.check.findings import Finding, Verdict, failed, ok, unseen, waiting
from tsoperator.check.listing import Chosen
from tsoperator.check.report import LeaderReport, read_report
from tsoperator.check.reported import check_report, with_looks

from tests.operator.check.leading import row


def report(**fields: Any) -> LeaderReport:
    return read_report(to_json({"objects": [], "namespace": "tailscale", "pod": "operator-0", **fields}))


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        (
            {"objects": [row(verdict="failed", reason="NameHeld", words="web is taken", cure="rename it")]},
            failed("objects", "Service shop/db: web is taken", "rename it"),
        ),
        (
            {"objects": [row("Connector", "", "office", verdict="failed", reason="Invalid")]},
            failed("objects", "Connector office: Invalid", ""),
        ),
        (
            {"objects": [row(verdict="waiting", words="it starts")]},
            Finding("objects", Verdict.WAITING, "Service shop/db: it starts"),
        ),
        ({"objects": [row(), row(name="b")]}, ok("objects", "objects that are served: 2", 2)),
        (
            {"tailnets": [{"name": "lab", "verdict": "failed", "words": "no answer", "cure": "look"}]},
            failed("tailnet", "Tailnet lab: no answer", "look"),
        ),
        (
            {"tailnets": [{"domain": "tail1234.ts.net", "verdict": "ok", "words": "set up"}]},
            ok("tailnet", "the operator's tailnet tail1234.ts.net: set up"),
        ),
        (
            {"dns": [{"name": "cluster DNS", "verdict": "failed", "words": "no stub domain", "cure": "add it"}]},
            failed("cluster-dns", "the cluster DNS: no stub domain", "add it"),
        ),
        (
            {"refusals": [{"what": "tags", "by": "control server", "tailnet": "lab", "words": "so", "cure": "let it"}]},
            failed("tailnet/tags", "Tailnet lab: the OAuth client may not give tags to devices", "so let it"),
        ),
        (
            {
                "objects": [row("DNSConfig", "", "ts-dns", verdict="failed", words="not asked")],
                "dns": [{"name": "cluster DNS", "verdict": "failed", "words": "not asked"}],
                "tailnets": [{"name": "lab", "verdict": "failed", "words": "not asked"}],
            },
            replace(failed("objects", "DNSConfig ts-dns: not asked", ""), explains="cluster-dns"),
        ),
        (
            {
                "objects": [row("DNSConfig", "", "ts-dns", verdict="failed", reason="NoAnswer", words="no answer")],
                "dns": [{"name": "cluster DNS", "verdict": "failed", "reason": "NoAnswer", "words": "no answer"}],
            },
            failed("cluster-dns", "DNSConfig ts-dns: no answer", ""),
        ),
        (
            {
                "objects": [row("DNSConfig", "", "ts-dns", verdict="failed", words="bad image")],
                "dns": [
                    {"name": "nameserver", "verdict": "failed", "words": "bad image"},
                    {"name": "cluster DNS", "verdict": "waiting", "words": "the nameserver comes first"},
                ],
            },
            replace(failed("objects", "DNSConfig ts-dns: bad image", ""), explains="nameserver"),
        ),
        (
            {
                "objects": [row("Tailnet", "", "lab", verdict="failed", words="no answer; see spec.loginUrl")],
                "refusals": [{"what": "api", "by": "control server", "tailnet": "lab", "words": "no answer"}],
            },
            replace(failed("objects", "Tailnet lab: no answer; see spec.loginUrl", ""), explains="Tailnet lab"),
        ),
        (
            {"refusals": [{"what": "newer", "by": "control server", "words": "it may not", "cure": "let it"}]},
            failed("tailnet/newer", "it may not", "let it"),
        ),
        (
            {"refusals": [{"what": "services", "by": "API server", "words": "may not see", "cure": "add roles"}]},
            failed("watches", "may not see", "add roles"),
        ),
        (
            {
                "tailnets": [{"name": "lab", "verdict": "failed", "reason": "PreflightFailed", "words": "no"}],
                "refusals": [{"what": "x", "by": "control server", "tailnet": "lab", "words": "no"}],
            },
            failed("tailnet/x", "Tailnet lab: no", ""),
        ),
    ],
)
def test_the_findings_cover_objects_tailnets_dns_and_refusals_in_the_report(
    fields: dict[str, Any], finding: Finding
) -> None:
    leader, found = check_report(report(**fields), Chosen(None))
    assert (leader.verdict, found) == (Verdict.OK, finding)


def test_a_tailnet_with_a_fault_has_a_finding_unless_another_finding_says_the_same() -> None:
    tailnets = [
        {"name": "a", "words": "set up"},
        {"name": "b", "verdict": "failed", "reason": "PreflightFailed", "words": "no list"},
        {"name": "c", "verdict": "failed", "reason": "SecretMissing", "words": "no Secret"},
        {"name": "d", "verdict": "waiting"},
    ]
    objects = [row(words="set up"), row(verdict="failed")]
    refusals = [{"what": "x", "by": "control server", "tailnet": "c", "words": "no"}]
    found = check_report(report(tailnets=tailnets, objects=objects, refusals=refusals), Chosen(None))
    told = ["Tailnet a: set up", "Tailnet b: no list", "Tailnet c: no Secret", "Tailnet d"]
    assert [each.words for each in found if each.check == "tailnet"] == told


def test_a_check_of_a_namespace_reports_only_objects_of_this_namespace() -> None:
    objects = [row(verdict="failed"), row(namespace="web", verdict="failed"), row("Connector", "", "office")]
    found = [each.words for each in check_report(report(objects=objects), Chosen("web"))][1:]
    assert found == ["Service web/db", "objects that are served: 1"]


def test_a_check_adds_only_findings_of_its_own_that_the_leader_has_not_reported() -> None:
    told = [ok("leader", "operator-0 leads"), failed("tailnet/tags", "may not give tags", "let it")]
    added = [ok("rights", "it has all"), failed("devices", "gone", "look")]
    looked = [
        ok("leader", "operator at operator-0 leads"),
        ok("preflight", "the tailnet is set up"),
        failed("preflight/tags", "the same", "let it"),
        unseen("webhooks", "you may not", "use another kubeconfig"),
        *added,
    ]
    assert with_looks(told, looked) == told + added


WELL = ok("cluster-dns", "the cluster DNS: it asks the nameserver")
BAD = failed("cluster-dns", "the cluster DNS: it doesn't forward", "add a stub domain")
SEEN = failed("cluster-dns", "ConfigMap coredns has no stub domain", "write these lines there")
TOLD = replace(failed("objects", "DNSConfig dns: the platform is missing", ""), explains="cluster-dns")
LAB = replace(failed("objects", "Tailnet lab: no answer", "see spec.loginUrl"), explains="Tailnet lab")
OF_LAB = replace(failed("preflight/api", "Tailnet lab: the control server does not answer", ""), about="Tailnet lab")
OF_OURS = failed("preflight/api", "the control server does not answer", "")
STARTS = replace(waiting("objects", "DNSConfig dns: no Pod is ready"), explains="cluster-dns")
UNSHOWN = ok("cluster-dns", "the cluster's DNS has a stub domain")


@pytest.mark.parametrize(
    ("told", "looked", "found"),
    [
        ([BAD], [SEEN], [SEEN]),
        ([TOLD], [SEEN], [TOLD]),
        ([LAB], [OF_LAB, OF_OURS], [LAB, OF_OURS]),
        ([STARTS], [SEEN], [SEEN]),
        ([STARTS], [UNSHOWN], [STARTS, UNSHOWN]),
        ([WELL], [SEEN], [SEEN]),
        ([BAD], [UNSHOWN], [BAD]),
        ([WELL], [UNSHOWN], [WELL]),
        ([], [UNSHOWN], [UNSHOWN]),
    ],
)
def test_a_fault_that_both_the_leader_and_the_check_find_is_reported_once(
    told: list[Finding], looked: list[Finding], found: list[Finding]
) -> None:
    assert with_looks(told, looked) == found
